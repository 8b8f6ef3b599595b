"""Dashboard, alerts and documents speak of metrics that exist, and every alert says what to do."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastnode.http.metric_families import FAMILIES

ROOT = Path(__file__).parents[3]
ALERTS = (ROOT / "deploy/prometheus/alerts.yml").read_text(encoding="utf-8")
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana/fastnode.json").read_bytes())
RULE = re.compile(
    r"      - alert: (?P<alert>Fastnode\w+)\n"
    r"        expr: (?P<expr>.+)\n"
    r"        for: \d+[sm]\n"
    r"        labels: \{severity: (?:critical|warning)\}\n"
    r'        annotations: \{summary: "[^"]+"\}\n'
)
METRIC = re.compile(r"\b(?:fastnode|process)_\w+")
# Metrics of Prometheus itself, and names that are labels or jobs.
EXPORTED = {
    sample
    for family in FAMILIES
    for sample in (
        [f"{family.name}_{part}" for part in ("bucket", "sum", "count")]
        if family.kind == "histogram"
        else [family.name]
    )
}


def expressions() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (variable["query"] for variable in DASHBOARD["templating"]["list"])
    yield from (rule["expr"] for rule in RULE.finditer(ALERTS))


def test_every_rule_is_whole() -> None:
    head, rules = ALERTS.split("    rules:\n")
    assert "\n  - name: fastnode\n" in head
    assert RULE.sub("", rules) == ""


def test_alerts_fire_when_they_should_and_not_before() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool judges alerts; it is part of Prometheus")
    for judged in (("check", "rules", "alerts.yml"), ("test", "rules", "alerts_test.yml")):
        command = [promtool, *judged]
        ran = subprocess.run(
            command, cwd=ROOT / "deploy/prometheus", capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_expressions_name_metrics_that_are_exported() -> None:
    used = {name for expression in expressions() for name in METRIC.findall(expression)}
    assert len(used) > 25
    assert used <= EXPORTED


def test_expressions_are_balanced() -> None:
    for expression in expressions():
        for opening, closing in ("()", "{}", "[]"):
            assert expression.count(opening) == expression.count(closing), expression
        assert expression.count('"') % 2 == 0, expression


def test_every_alert_has_its_action() -> None:
    document = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    section = document.split("## Alerts\n")[1].split("\n## ")[0]
    documented = re.findall(r"^\| `(Fastnode\w+)` \| .{20,} \|$", section, re.MULTILINE)
    assert documented == [rule["alert"] for rule in RULE.finditer(ALERTS)]


def test_every_metric_is_documented() -> None:
    rows = "".join(f"| `{row.name}` | {row.kind} | {row.help} |\n" for row in FAMILIES)
    document = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    assert f"|---|---|---|\n{rows}\n" in document, "paste this:\n" + rows


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        own = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & own and max(x for x, _ in own) < 24, panel["title"]
        cells |= own
