"""Charts are well-formed SVG and show every figure they were given."""

import math
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import plot
from bench.plot import Scale, bar_chart, line_chart

SVG = "{http://www.w3.org/2000/svg}"
VALUES = st.floats(0.001, 1e7)
NAMES = st.text("ab <&>\"'µ", min_size=1, max_size=12)


def texts(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    return [element.text or "" for element in root.iter(f"{SVG}text")]


@given(
    st.dictionaries(
        NAMES, st.lists(st.tuples(VALUES | st.just(0.0), VALUES), min_size=1), min_size=1
    ),
    st.booleans(),
    st.none() | VALUES,
)
def test_any_lines_make_well_formed_svg_with_a_point_for_each_value(
    series: dict[str, list[tuple[float, float]]], log_x: bool, reference: float | None
) -> None:
    svg = line_chart("a < b & c", "x", "y", series, log_x=log_x, reference=reference)
    root = ElementTree.fromstring(svg)
    circles = list(root.iter(f"{SVG}circle"))
    assert len(circles) == sum(len(line) for line in series.values())
    for circle in circles:
        assert plot.LEFT - 1 <= float(circle.get("cx", "nan")) <= plot.WIDTH - plot.RIGHT + 1
        assert plot.TOP - 1 <= float(circle.get("cy", "nan")) <= plot.TOP + plot.PLOT_HEIGHT + 1


@given(
    st.dictionaries(
        NAMES, st.lists(st.none() | VALUES | st.just(0.0), min_size=3, max_size=3), min_size=1
    ),
    st.booleans(),
)
def test_any_bars_make_well_formed_svg_with_a_bar_or_a_word_for_each_value(
    series: dict[str, list[float | None]], log_values: bool
) -> None:
    svg = bar_chart("t", ["one", "<two>", "&"], series, log_values=log_values, absent="absent!")
    values = [value for line in series.values() for value in line]
    assert texts(svg).count("absent!") == values.count(None)
    root = ElementTree.fromstring(svg)
    # The page and one square per name of the legend are rectangles too.
    bars = len(list(root.iter(f"{SVG}rect"))) - 1 - len(series)
    assert bars == len(values) - values.count(None)


def test_a_logarithmic_axis_places_decades_evenly_and_zero_at_its_low_end() -> None:
    scale = plot.x_scale([0.0, 1e3, 1e5], 0, 300, is_log=True)
    assert [scale.place(value) for value in (0, 1e3, 1e4, 1e5)] == [0, 100, 200, 300]
    assert plot.x_ticks(scale, [0.0, 1e3, 1e5]) == [0, 1e3, 1e4, 1e5]


def test_an_axis_without_zero_shows_its_ends_and_the_decades_between() -> None:
    scale = plot.x_scale([1e3, 5e6], 0, 1, is_log=True)
    assert plot.x_ticks(scale, [1e3, 5e6]) == [1e3, 1e4, 1e5, 1e6, 5e6]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (0.004, "0.004"), (0.123, "0.123"), (1.15, "1.15"), (1000, "1 k"), (5e6, "5 M")],
)
def test_figures_are_short(value: float, shown: str) -> None:
    assert plot.number(value) == shown


@given(st.floats(1e-6, 1e9))
def test_a_linear_axis_ends_at_a_tick_at_or_above_the_highest_value(value: float) -> None:
    scale = Scale(0.0, plot.round_up(value), 0, 1)
    ticks = plot.even_ticks(scale)
    assert value <= scale.high * (1 + 1e-9)
    assert math.isclose(ticks[-1], scale.high)
    assert 2 <= len(ticks) <= 2 * plot.TICKS_WANTED
