"""Stacks become stages and a flame graph: from stacks made by hand, and once from a real node."""

from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from bench import budget, flame, spy, stages
from bench.stages import Sampled, Thread

READ = ("run (uvloop/__init__.py)", "uv_run (core.c)", "read (libc.so.6)")
SIGN = ("run (uvloop/__init__.py)", "prove (fastnode/_sigv4.pyx)", "memcpy (libc.so.6)")
PLAN = ("run (uvloop/__init__.py)", "submit_plain (fastnode/queue/send.py)", "malloc (libc.so.6)")


@pytest.mark.parametrize(
    ("stack", "stage"),
    [
        (READ, stages.KERNEL),
        (SIGN, stages.SIGNATURE),
        (PLAN, stages.PLAN),
        (("data_received (fastnode/http/connection.py)",), stages.HEAD),
        (("Connection._write (fastnode/http/connection.py)",), stages.ANSWER),
        (("Group.stamp (fastnode/store/group.py)",), stages.COMMIT),
        (("Group.begin (fastnode/store/group.py)", "Txn.add (fastnode/store/txn.py)"), stages.PLAN),
        (("Group.apply (fastnode/store/group.py)", "put (rocksdict/x.so)"), stages.APPLY),
        (("Courier.ask (fastnode/cluster/courier.py)",), stages.LINKS),
        (("tidy (fastnode/upkeep.py)",), stages.OTHER),
        (("main (elsewhere.py)",), stages.OTHER),
    ],
)
def test_the_innermost_frame_that_has_a_stage_decides(stack: stages.Stack, stage: str) -> None:
    assert stages.stage_of(stack) == stage


def test_samples_only_divide_what_the_kernel_says_was_used() -> None:
    samples = [Sampled(7, READ, 90), Sampled(7, SIGN, 3), Sampled(7, PLAN, 1)]
    threads = [Thread(7, "python", user=4e-6, system=2e-6), Thread(8, "raft-log", 1e-6, 5e-6)]
    weights = {stack: seconds * 1e6 for stack, seconds in stages.weigh(samples, threads).items()}
    rows = {row.stage: row for row in stages.rows(weights)}
    assert rows[stages.KERNEL].loop_us == pytest.approx(2.0)
    assert rows[stages.SIGNATURE].loop_us == pytest.approx(3.0)
    assert rows[stages.PLAN].loop_us == pytest.approx(1.0)
    assert rows[stages.COMMIT].threads_us == pytest.approx(6.0)
    assert sum(row.all_us for row in rows.values()) == pytest.approx(12.0)


def test_system_time_that_no_sample_saw_is_the_kernels() -> None:
    weights = stages.weigh([Sampled(7, SIGN, 1)], [Thread(7, "python", user=1.0, system=2.0)])
    rows = {row.stage: row.loop_us for row in stages.rows(weights)}
    assert (rows[stages.KERNEL], rows[stages.SIGNATURE]) == (2.0, 1.0)


def test_frames_that_all_stacks_of_a_thread_begin_with_are_left_out_but_the_last() -> None:
    weights: dict[stages.Stack, float] = {
        ("python", "main", "loop", "a"): 1.0,
        ("python", "main", "loop", "b"): 2.0,
    }
    assert stages.without_common_start(weights) == {
        ("python", "loop", "a"): 1.0,
        ("python", "loop", "b"): 2.0,
    }


def test_a_raw_line_loses_line_numbers_noise_and_repetitions() -> None:
    noise = "Py_DECREF (object.h:537)"
    line = f"thread (42): MainThread;f (a.py:1);f (a.py:9);{noise};g (fastnode/_x.pyx:3) 5"
    assert list(spy.parse(line)) == [Sampled(42, ("f (a.py)", "g (fastnode/_x.pyx)"), 5)]


def test_a_look_divides_the_exact_time_by_the_ticks_of_its_own_interval() -> None:
    before = {1: spy.Look("python", 10.0, 10.0, 0.0)}
    after = {1: spy.Look("python", 14.0, 11.0, 3.0), 2: spy.Look("raft-log", 1.0, 0.0, 0.0)}
    assert spy.used(before, after) == [Thread(1, "python", 1.0, 3.0), Thread(2, "raft-log", 1.0, 0)]


def test_a_flame_graph_is_xml_and_as_wide_as_its_weights() -> None:
    stacks = {("main", "a<b>"): 3.0, ("main", "c"): 1.0, ("main",): 0.0}
    text = flame.render(
        stacks, title="x & y", unit="µs", paint=lambda _: "#fff", legend=[("k", "#000")]
    )
    titles = [element.text for element in ElementTree.fromstring(text).iter() if is_title(element)]
    assert titles == [
        "all: 4.00 µs, 100.0%",
        "main: 4.00 µs, 100.0%",
        "a<b>: 3.00 µs, 75.0%",
        "c: 1.00 µs, 25.0%",
    ]
    boxes = {box.name: box for box in flame.boxes(flame.tree(stacks), "all")}
    assert boxes["a<b>"].width == pytest.approx(3 * boxes["c"].width)
    assert boxes["c"].x == pytest.approx(boxes["a<b>"].x + boxes["a<b>"].width)


def is_title(element: ElementTree.Element) -> bool:
    return element.tag.endswith("title")


def test_the_budget_of_a_real_node_adds_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {name: tmp_path / f"profile.{name}" for name in ("svg", "json")}
    arguments = ["--seconds", "0.7", "--connections", "8", "--data-under", str(tmp_path)]
    arguments += ["--svg", str(files["svg"]), "--json", str(files["json"]), "--markdown"]
    code = budget.main(arguments)
    said = capsys.readouterr()
    if "py-spy" in said.err:
        pytest.skip(said.err)
    assert code == 0, said.err
    taken = msgspec.json.decode(files["json"].read_bytes(), type=budget.Budget)
    rows = {row.stage: row for row in taken.rows}
    assert list(rows) == list(stages.STAGES)
    assert sum(row.loop_us for row in taken.rows) > 0
    assert rows[stages.COMMIT].threads_us > 0
    assert "| signature |" in said.out
    ElementTree.fromstring(files["svg"].read_text())
