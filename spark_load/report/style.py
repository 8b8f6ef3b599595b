"""The look of the page: its style sheet. Colours are variables, for light and for dark."""

from typing import Final

# Six tones that differ in lightness too, so that they can be told apart without colour.
_LIGHT: Final = ("#2a6fdb", "#d9480f", "#0f9d76", "#b7791f", "#c2255c", "#6741d9")
_DARK: Final = ("#6ea8fe", "#ff9466", "#4fd1a5", "#f2c14e", "#f783ac", "#b197fc")


def _tones(colours: tuple[str, ...]) -> str:
    return "".join(f"--t{number}:{colour};" for number, colour in enumerate(colours))


_STROKES: Final = "".join(
    f".line.t{number}{{stroke:var(--t{number})}}"
    f".area.t{number},.bar.t{number}{{fill:var(--t{number})}}"
    f"i.t{number}{{background:var(--t{number})}}"
    for number in range(len(_LIGHT))
)
STYLE: Final = f"""
:root{{--page:#f6f7f9;--card:#fff;--ink:#16181d;--soft:#5b6270;--grid:#e4e7ec;--bad:#c92a2a;
--good:#2b8a3e;{_tones(_LIGHT)}}}
@media (prefers-color-scheme:dark){{:root{{--page:#0f1115;--card:#181b21;--ink:#e8eaee;
--soft:#9aa2b1;--grid:#2a2f38;--bad:#ff8787;--good:#69db7c;{_tones(_DARK)}}}}}
*{{box-sizing:border-box}}
body{{margin:0;background:var(--page);color:var(--ink);font:15px/1.45 system-ui,sans-serif}}
header,main{{max-width:1120px;margin:0 auto;padding:0 16px}}
header{{padding-top:20px}}
h1{{font-size:22px;margin:0 0 4px;overflow-wrap:anywhere}}
h2{{font-size:16px;margin:0 0 2px}}
main{{display:grid;gap:14px;padding-top:14px;padding-bottom:40px;grid-template-columns:1fr}}
section{{background:var(--card);border:1px solid var(--grid);border-radius:10px;padding:14px;
min-width:0}}
p{{margin:0}}
.caption,figcaption{{color:var(--soft);font-size:13px}}
.verdict{{font-weight:600;overflow-wrap:anywhere}}
.verdict.good{{color:var(--good)}}.verdict.bad{{color:var(--bad)}}.verdict.open{{color:var(--soft)}}
.legend{{display:flex;flex-wrap:wrap;gap:2px 14px;font-size:13px;margin:4px 0}}
.key i{{display:inline-block;width:14px;height:4px;border-radius:2px;margin-right:5px;
vertical-align:middle}}
.plots{{display:grid;gap:12px;grid-template-columns:1fr}}
.plots>*{{min-width:0}}
figure{{margin:0}}
svg{{display:block;width:100%;height:auto}}
svg text{{font:10.5px system-ui,sans-serif;fill:var(--soft)}}
.grid{{stroke:var(--grid);fill:none}}.axis{{stroke:var(--soft);fill:none}}
.line{{fill:none;stroke-width:1.6;stroke-linejoin:round;stroke-linecap:round}}
.area{{opacity:.14}}.bar{{opacity:.85}}
.mark,.limit{{stroke:var(--bad);fill:none;stroke-dasharray:3 3}}
svg text.mark,svg text.limit{{fill:var(--bad);stroke:var(--card);stroke-width:3px;
stroke-dasharray:none;paint-order:stroke}}
{_STROKES}
.scroll{{overflow-x:auto}}
@media (max-width:500px){{svg text{{font-size:12px}}}}
table{{width:100%;border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums}}
th{{text-align:left;font-weight:600;color:var(--soft);font-size:13px}}
td,th{{padding:3px 14px 3px 0;border-bottom:1px solid var(--grid)}}
.numbers td:not(:first-child),.numbers th:not(:first-child){{text-align:right}}
.ranking td{{white-space:nowrap}}
.ranking td:first-child{{overflow-wrap:anywhere;white-space:normal;min-width:8.5em}}
.ranking td:nth-child(2){{text-align:right}}.ranking td:nth-child(3){{width:34%}}
.ranking td:last-child,.ranking th:last-child{{padding-right:0}}
@media (max-width:500px){{.ranking td:nth-child(3){{width:18%}}td,th{{padding-right:8px}}}}
.rank{{height:9px;border-radius:2px;background:var(--t0);min-width:1px}}
@media (min-width:900px){{
.runs1 main{{grid-template-columns:1fr 1fr}}
.runs1 main>section:first-child{{grid-row:span 2}}
.runs2 .plots{{grid-template-columns:1fr 1fr}}
}}
"""
