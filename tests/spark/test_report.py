"""The report's pure parts: scales, series, plots, the page and its numbers."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_load.report import figures, scale
from spark_load.report.chart import Axes, Bars, Line, Mark, chart
from spark_load.report.page import page
from spark_load.report.runs import SLOTS_MAX, Run, names, run_from_json, step_us
from spark_load.report.summary import text

SVG = "{http://www.w3.org/2000/svg}"
BEGAN_US = 1_700_000_000_000_000


def spread(slot: int, us: int, **fields: Any) -> dict[str, Any]:
    return {
        "slot": slot,
        "p50": us,
        "p90": us,
        "p99": 2 * us,
        "p999": 3 * us,
        "max": 4 * us,
    } | fields


def a_run(**fields: Any) -> Run:
    """Ten seconds in ten slots; the fourth lost its leader and nothing was answered."""
    answered = [slot for slot in range(10) if slot != 3]
    total = {"ok": 900, "refused": 0, "unanswered": 100, "calls": 1000, "messages": 900}
    known: dict[str, Any] = {
        "trace_id": "0badcafe",
        "workload": "smoke",
        "began_us": BEGAN_US,
        "ended_us": BEGAN_US + 10_000_000,
        "step_us": 1_000_000,
        "is_complete": True,
        "speed": 1.0,
        "planned": 1000,
        "budget_us": 100_000,
        "faults": [{"at_us": BEGAN_US + 3_000_000, "label": "leader killed"}],
        "totals": {"send": total | spread(0, 1000), "receive": total, "delete": total},
        "answers": [
            {"slot": slot, "kind": kind, "ok": 100, "refused": 0, "unanswered": 0, "messages": 100}
            for slot in answered
            for kind in ("send", "receive", "delete")
        ],
        "latencies": [spread(slot, 1000, kind="send") for slot in answered],
        "lateness": [spread(slot, 0) for slot in range(10)],
        "distributions": [{"kind": "send", "bin": bin_, "count": 10} for bin_ in (30, 33)],
        "arrivals": [{"slot": slot, "came": 100, "gone": 90} for slot in range(10)],
        "leases": [{"slot": 12, "came": 0, "gone": 0}],
        "endpoints": [{"endpoint": "http://a", "calls": 10} | spread(0, 5)],
        "choosing": [spread(0, 50)],
        "choosing_bins": [{"bin": 17, "count": 9}, {"bin": 21, "count": 1}],
        "partitions": [{"value": 32, "count": 10}],
        "rows_seen": [{"value": 1, "count": 10}],
    }
    return Run(**(known | fields))


@given(st.integers(1, 10**13))
def test_a_run_of_any_length_has_a_bounded_number_of_slots(duration_us: int) -> None:
    step = step_us(duration_us)
    assert -(-duration_us // step) <= SLOTS_MAX
    assert step == 1000 or -(-duration_us // step) > SLOTS_MAX / 5


@given(st.lists(st.floats(0, 1e15), min_size=1))
def test_linear_scales_hold_every_value_in_order(values: list[float]) -> None:
    found = scale.linear(values, 100.0, 0.0)
    assert found.high >= max(values)
    places = [found.at(value) for value in sorted(values)]
    assert places == sorted(places, reverse=True)
    assert 2 <= len(found.ticks()) <= 12


@given(st.lists(st.floats(1e-3, 1e12), min_size=1))
def test_logarithmic_scales_hold_every_value(values: list[float]) -> None:
    found = scale.logarithmic(values, 0.0, 100.0)
    assert all(0.0 <= found.at(value) <= 100.0 for value in values)
    assert found.at(found.low) == 0.0
    assert found.at(found.high) == 100.0


@pytest.mark.parametrize(
    ("seconds", "ticks"),
    [
        (0.5, [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]),
        (120.0, [0.0, 30.0, 60.0, 90.0, 120.0]),
        (7200.0, [0.0, 1800.0, 3600.0, 5400.0, 7200.0]),
        (36_000.0, [0.0, 7200.0, 14_400.0, 21_600.0, 28_800.0, 36_000.0]),
    ],
)
def test_time_is_divided_as_clocks_do(seconds: float, ticks: list[float]) -> None:
    assert scale.Scale(0.0, seconds, 0.0, 1.0).ticks("time") == pytest.approx(ticks)


def test_places_beyond_a_scale_are_at_its_edge() -> None:
    found = scale.Scale(0.0, 10.0, 0.0, 100.0)
    assert (found.at(-5.0), found.at(5.0), found.at(50.0)) == (0.0, 50.0, 100.0)


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (0, "us", "0 µs"),
        (250, "us", "250 µs"),
        (1_500, "us", "1.5 ms"),
        (2_000_000, "us", "2 s"),
        (100_000_000, "us", "100 s"),
        (90, "time", "1:30"),
        (3_725, "time", "1:02:05"),
        (5, "time", "5 s"),
        (1_234, "count", "1.23k"),
        (10_000_000, "count", "10M"),
        (7, "count", "7"),
    ],
)
def test_numbers_are_short(value: float, unit: scale.Unit, words: str) -> None:
    assert scale.written(value, unit) == words


def axes() -> Axes:
    return Axes(
        scale.Scale(0.0, 10.0, 50.0, 390.0), scale.Scale(0.0, 10.0, 188.0, 16.0), "time", "count"
    )


def test_a_gap_is_not_drawn_over() -> None:
    line = Line("x", [(0.0, 1.0), (1.0, 2.0), (2.0, None), (3.0, 4.0)], 0)
    drawn = ElementTree.fromstring(named(chart("a", axes(), [line])))
    (path,) = [element for element in drawn.iter(f"{SVG}path") if "line" in element.attrib["class"]]
    assert path.attrib["d"].count("M") == 2
    assert path.attrib["d"].endswith("h0")


def test_every_text_in_a_plot_is_escaped() -> None:
    drawn = chart("<a>", axes(), [Bars("b", [(0.0, 1.0, 2.0)], 0)], [Mark(1.0, "<script>&")])
    texts = [element.text for element in ElementTree.fromstring(named(drawn)).iter(f"{SVG}text")]
    assert "<script>&" in texts


def named(svg: str) -> str:
    return svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)


def test_throughput_falls_to_zero_where_nothing_was_answered() -> None:
    rates = [rate for _, rate in figures.per_second(a_run(), "send", "messages")]
    assert rates == [100.0, 100.0, 100.0, 0.0, *[100.0] * 6]


def test_latency_has_a_gap_where_nothing_was_answered() -> None:
    run = a_run()
    line = figures.spread_lines(run, figures.of_kind(run, "send"))[0]
    assert [y for _, y in line.points] == [1000.0] * 3 + [None] + [1000.0] * 6


def test_a_backlog_is_what_came_without_what_went() -> None:
    run = a_run()
    assert [y for _, y in figures.level(run, run.arrivals)] == [10.0 * n for n in range(1, 11)]


def test_shares_add_up_and_bins_between_are_empty() -> None:
    points = figures.shares(a_run().distributions)
    assert [y for _, y in points] == [50.0, 0.0, 0.0, 50.0]


def test_figures_without_anything_to_see_are_left_out() -> None:
    titles = {figure.title for figure in figures.figures([a_run()])}
    assert {"Throughput", "Latency of sends", "Fanout: choosing"} <= titles
    assert "Failed attempts" not in titles
    assert "End to end" not in titles


def test_two_replays_of_one_trace_are_told_apart_by_when_they_began() -> None:
    later = replace(a_run(), began_us=BEGAN_US + 60_000_000)
    assert names([a_run()]) == ["smoke 0badcafe"]
    first, second = names([a_run(), later])
    assert (first, second) == (
        "smoke 0badcafe, 2023-11-14 22:13:20",
        "smoke 0badcafe, 2023-11-14 22:14:20",
    )
    assert first in page([a_run(), later]) and second in text([a_run(), later])


def test_two_runs_share_their_axes() -> None:
    slow = a_run(latencies=[spread(0, 10_000_000, kind="send")])
    (figure,) = [f for f in figures.figures([a_run(), slow]) if f.title == "Latency of sends"]
    ticks = [ElementTree.fromstring(named(plot)).itertext() for plot in figure.plots]
    assert "100 s" in list(ticks[0])
    assert "100 s" in list(ticks[1])


def test_a_run_without_anything_still_has_a_page() -> None:
    empty = Run("0badcafe", "none", BEGAN_US, BEGAN_US, 1000, False, 1.0, 0, 100_000)
    html = page([empty])
    assert "not judged (cut short)" in html
    assert "<svg" not in html
    assert "messages sent" in text([empty])


def test_everything_on_the_page_is_escaped() -> None:
    evil = "<script>alert(1)</script>"
    rows = [{"endpoint": evil, "calls": 1} | spread(0, 5)]
    run = a_run(
        workload=evil,
        endpoints=rows,
        queues=[{"queue": evil, "sent": 1, "delivered": 1, "deleted": 1}],
        groups=[{"queue": evil, "name": evil, "messages": 1}],
        tenants=[{"tenant": evil, "calls": 1} | spread(0, 5)],
        errors=[{"error": evil, "count": 1}],
        faults=[{"at_us": BEGAN_US, "label": evil}],
        verdict="violations",
        violations={evil: 1},
    )
    html = page([run, run])
    assert "<script" not in html
    assert html.count("&lt;script&gt;") >= 16


def test_a_comparison_says_how_the_second_differs() -> None:
    slow = a_run(totals={"send": dict(a_run().totals["send"]) | spread(0, 2500)})
    line = next(line for line in text([a_run(), slow]).splitlines() if line.startswith("send p50"))
    assert line.split() == ["send", "p50", "1", "ms", "2.5", "ms", "2.50", "times"]


def test_numbers_come_back_from_json() -> None:
    run = a_run(verdict="clean", violations={"lost": 0})
    assert page([run_from_json(run.to_json())]) == page([run])
    with pytest.raises(ValueError, match="version"):
        run_from_json(replace(run, version=99).to_json())
