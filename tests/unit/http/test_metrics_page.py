"""The page of metrics, by a reader that forgives nothing; and what requests leave on it."""

import logging

import pytest

from fastnode.errors import Overloaded
from fastnode.http.metric_families import FAMILIES, family_of
from fastnode.http.metrics_page import merge_metrics, metrics_text
from fastnode.http.request_meter import RequestMeter
from fastnode.meter import Histogram
from fastnode.native import now_ns
from fastnode.queue.errors import queue_does_not_exist, request_throttled
from tests.metrics_text import read_metrics

MS = 1_000_000


def requests_of(samples: dict[str, float]) -> dict[str, float]:
    return {
        name.removeprefix("fastnode_requests_total"): value
        for name, value in samples.items()
        if name.startswith("fastnode_requests_total")
    }


def test_every_row_of_the_table_is_sound() -> None:
    names = [family.name for family in FAMILIES]
    assert len(set(names)) == len(names)
    for family in FAMILIES:
        assert family.name.endswith("_total") == (family.kind == "counter"), family.name
        assert family_of(family.name) is family


def test_requests_are_told_apart_by_action_and_outcome() -> None:
    meter = RequestMeter()
    for error in (None, None, Overloaded(""), request_throttled(1), KeyError()):
        meter.ended("SendMessage", now_ns(), "id", error)
    meter.refuse("CreateQueue", queue_does_not_exist())
    meter.refuse(None, queue_does_not_exist())
    assert requests_of(meter.metrics()) == {
        '{action="SendMessage",outcome="ok"}': 2,
        '{action="SendMessage",outcome="unavailable"}': 1,
        '{action="SendMessage",outcome="throttled"}': 1,
        '{action="SendMessage",outcome="bug"}': 1,
        '{action="CreateQueue",outcome="ok"}': 0,
        '{action="CreateQueue",outcome="refused"}': 1,
        '{action="unknown",outcome="refused"}': 1,
    }
    families = read_metrics(metrics_text(meter.metrics()))
    assert {family.kind for family in families.values()} == {"counter", "histogram"}


def test_a_bucket_holds_what_is_not_longer_than_its_end() -> None:
    histogram = Histogram(shift=0)
    for value in (1, 2, 3, 4, 5, 1 << 40):
        histogram.add(value)
    samples = dict(histogram.samples("x", unit=1, ends=4))
    assert samples == {
        'x_bucket{le="1"}': 1,
        'x_bucket{le="2"}': 2,
        'x_bucket{le="4"}': 4,
        'x_bucket{le="8"}': 5,
        'x_bucket{le="+Inf"}': 6,
        "x_sum": 15 + (1 << 40),
        "x_count": 6,
    }


def test_workers_are_one_node_together() -> None:
    one = {"fastnode_requests_total": 2.0, "fastnode_retry_gate": 1.0, "fastnode_disk_bytes": 5.0}
    other = {"fastnode_requests_total": 3.0, "fastnode_retry_gate": 0.0, "fastnode_disk_bytes": 5.0}
    assert merge_metrics([one, other, {"process_open_fds": 1.0}]) == {
        "fastnode_requests_total": 5,
        "fastnode_retry_gate": 0,
        "fastnode_disk_bytes": 5,
        "process_open_fds": 1,
    }


def test_what_is_in_no_table_is_shown_all_the_same() -> None:
    families = read_metrics(metrics_text({'new_thing{a="b"}': 1, "fastnode_log_bytes": 2}))
    assert {name: family.kind for name, family in families.items()} == {
        "new_thing": "untyped",
        "fastnode_log_bytes": "gauge",
    }


def test_slow_requests_are_said_but_not_without_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    meter = RequestMeter(slow_ms=500)
    meter.ended("SendMessage", now_ns() - 400 * MS, "quick", None)
    meter.ended("ReceiveMessage", now_ns() - 15_000 * MS, "waited", None)
    assert not caplog.records
    for number in range(50):
        meter.ended("SendMessage", now_ns() - 600 * MS, f"slow-{number}", None)
    said = [vars(record) for record in caplog.records]
    assert 10 <= len(said) <= 20
    assert said[0]["request_id"] == "slow-0" and 600 <= said[0]["milliseconds"] < 10_000
    RequestMeter().ended("SendMessage", 0, "never", None)
    assert len(caplog.records) == len(said)
