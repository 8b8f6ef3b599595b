"""The page: one HTML file that needs nothing else. Pure; every text from outside is escaped.

It has light and dark colours, as the reader's system asks, and one column on a phone.
"""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from spark_load.report.figures import Figure, figures
from spark_load.report.runs import Row, Run, names
from spark_load.report.scale import amount, duration
from spark_load.report.style import STYLE
from spark_load.report.summary import rows as number_rows
from spark_load.report.summary import verdict_words

# Nothing may be loaded, whatever text a history brings along.
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


def page(runs: Sequence[Run]) -> str:
    """Of one run, or of two side by side."""
    title = " and ".join(names(runs))
    parts = [
        "<!doctype html>\n",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>Replay of {escape(title)}</title><style>{STYLE}</style></head>",
        f'<body class="runs{len(runs)}"><header><h1>Replay of {escape(title)}</h1>',
        *(_verdict(run, name, len(runs) > 1) for run, name in zip(runs, names(runs), strict=True)),
        "</header><main>",
        _section("Numbers", _numbers(runs)),
        *(_figure(figure, runs) for figure in figures(runs)),
        *_lists(runs),
        _section("Checks", _checks(runs)),
        _section("Errors", _side_by_side([_errors(run) for run in runs])),
        "</main></body></html>\n",
    ]
    return "".join(parts)


def _verdict(run: Run, name: str, is_named: bool) -> str:
    name = f"{escape(name)}: " if is_named else ""
    cut = "" if run.is_complete else " (cut short)"
    kind = {"clean": "good", "violations": "bad"}.get(run.verdict or "", "open")
    return f'<p class="verdict {kind}">{name}{escape(verdict_words(run))}{cut}</p>'


def _numbers(runs: Sequence[Run]) -> str:
    head = ["", *names(runs), "change"] if len(runs) == 2 else ["", *names(runs)]
    return _table(head, number_rows(runs))


def _figure(figure: Figure, runs: Sequence[Run]) -> str:
    legend = "".join(
        f'<span class="key"><i class="t{tone}"></i>{escape(name)}</span>'
        for name, tone in figure.legend
        if len(figure.legend) > 1
    )
    plots = "".join(
        f"<figure>{plot}{_run_name(name, len(runs) > 1)}</figure>"
        for plot, name in zip(figure.plots, names(runs), strict=True)
    )
    return _section(
        figure.title,
        f'<p class="caption">{escape(figure.caption)}</p><p class="legend">{legend}</p>'
        f'<div class="plots">{plots}</div>',
        "plot",
    )


def _run_name(name: str, is_named: bool) -> str:
    return f"<figcaption>{escape(name)}</figcaption>" if is_named else ""


def _lists(runs: Sequence[Run]) -> Iterator[str]:
    """Balance: who had how much, as bars beside numbers."""
    for title, lists in (
        ("Nodes", [_ranking(_hosts(run), "node", "calls") for run in runs]),
        ("Queues", [_ranking(run.queues, "queue", "sent") for run in runs]),
        ("Message groups", [_groups(run) for run in runs]),
        ("Tenants", [_ranking(run.tenants, "tenant", "calls") for run in runs]),
    ):
        if any(lists):
            yield _section(title, _side_by_side(lists))


def _hosts(run: Run) -> list[Row]:
    """The scheme is the same for all, and takes the room of the port."""
    return [{**row, "node": row["endpoint"].partition("//")[2]} for row in run.endpoints]


def _groups(run: Run) -> str:
    if not run.groups:
        return ""
    of = f"the largest of {run.group_count:,} groups with {run.grouped_messages:,} messages"
    named = [{**row, "group": f"{row['queue']} {row['name']}"} for row in run.groups]
    return f'<p class="caption">{of}</p>' + _ranking(named, "group", "messages")


def _ranking(rows: Sequence[Row], name: str, size: str) -> str:
    if not rows:
        return ""
    largest = max(row[size] for row in rows) or 1
    has_latency = "p50" in rows[0]
    head = [name, size, "", *(("p50", "p99") if has_latency else ())]
    cells = []
    for row in rows:
        bar = f'<div class="rank" style="width:{100 * row[size] / largest:.1f}%"></div>'
        latency = [_latency(row, "p50"), _latency(row, "p99")] if has_latency else []
        cells.append([escape(str(row[name])), amount(row[size]), bar, *latency])
    return _raw_table(head, cells, "ranking")


def _latency(row: Row, column: str) -> str:
    return "" if row[column] is None else duration(row[column])


def _checks(runs: Sequence[Run]) -> str:
    found = list(dict.fromkeys(name for run in runs for name in run.violations))
    if not found:
        return '<p class="caption">Nobody has judged this history: run verify first.</p>'
    rows = [[name, *(_count(run, name) for run in runs)] for name in found]
    return _table(["", *names(runs)], rows)


def _count(run: Run, name: str) -> str:
    return f"{run.violations[name]:,}" if name in run.violations else ""


def _errors(run: Run) -> str:
    if not run.errors:
        return '<p class="caption">none</p>'
    return _table(
        ["error", "attempts"], [[row["error"], f"{row['count']:,}"] for row in run.errors]
    )


def _side_by_side(parts: Sequence[str]) -> str:
    return '<div class="plots">' + "".join(f"<div>{part}</div>" for part in parts) + "</div>"


def _section(title: str, content: str, kind: str = "wide") -> str:
    return f'<section class="{kind}"><h2>{escape(title)}</h2>{content}</section>'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return _raw_table(head, [[escape(cell) for cell in row] for row in rows], "numbers")


def _raw_table(head: Sequence[str], rows: Sequence[Sequence[str]], kind: str) -> str:
    """Cells are HTML already."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table class="{kind}"><tr>{top}</tr>{body}</table></div>'
