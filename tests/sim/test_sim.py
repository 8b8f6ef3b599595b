"""A run is a pure function of its seed, and deliberate bugs are found.

`make test-sim` runs 500 seeds besides; `make sim SEEDS=…` as many as there is time for.
"""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.sim.clockwork import NS_PER_SECOND, Bug, Clockwork, SimLoop, TrueClock
from tests.sim.mutation import BEGIN, END, table, write_between
from tests.sim.network import Network
from tests.sim.run import bounded, simulate

SEED = 22  # Three nodes; one joins and one is removed, so that snapshots are sent too.


def last_line(**environment: str) -> str:
    command = [sys.executable, "-m", "tests.sim", "--seed", str(SEED)]
    ran = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.splitlines()[-1]


def mutation(name: str, *, seed: int, seeds: int) -> str:
    """In a process of its own, which runs the sources."""
    command = [sys.executable, "-m", "tests.sim.mutation", "--jobs", "1", name]
    command += ["--seed", str(seed), "--seeds", str(seeds)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_a_run_depends_on_its_seed_alone() -> None:
    first = simulate(SEED)
    assert first.operations > 20 and first.faults > 0
    assert simulate(SEED) == first
    assert simulate(SEED + 1).trace_hash != first.trace_hash


def test_compiled_and_pure_builds_leave_the_same_trace_in_the_last_line() -> None:
    compiled = last_line()
    assert compiled == last_line(FASTNODE_PURE="1")
    for word in (f"seed {SEED}:", "operations", "faults", "trace"):
        assert word in compiled


@pytest.mark.parametrize("seconds", [None, 0.0, 0.000_1])
def test_somebody_who_wakes_himself_all_the_time_ends_the_run(seconds: float | None) -> None:
    """At once, after no time that a timer can tell, and a little later: each has a bound."""
    work = Clockwork(1)
    loop = SimLoop(work, Network(work), "127.0.0.1", TrueClock(work))

    def wake() -> None:
        if seconds is None:
            loop.call_soon(wake)
        else:
            loop.call_later(seconds, wake)

    loop.call_soon(wake)
    with pytest.raises(Bug, match="does not come to rest"):
        work.run(work.now_ns + 200 * NS_PER_SECOND)
    loop.kill()


def test_a_loop_that_never_comes_back_ends_the_run() -> None:
    with pytest.raises(Bug, match="it does not end"), bounded(0.1):
        while True:
            with suppress(Exception):
                sum(range(1_000))


# What they found: a purge beside a receive, a lead lost while a node stops, a disk that fails at a
# start, a joiner that knew nobody after its restart, a record of a member that was written twice.
# They are plain: what came to the simulator later would change what they do.
@pytest.mark.parametrize("seed", [207, 232, 300, 327, 367, 415])
def test_a_seed_that_found_something_stays_good(seed: int) -> None:
    assert simulate(seed, is_plain=True).operations > 0


# A poll that spun while a partition's clock was behind; a send that was stored anew after a purge,
# which the model took for a resurrection; messages of a queue that was made anew, counted by what
# was known of the old one; a delete that a leader of yesterday answered: it knew of no delivery; a
# join that nobody waited for any more, which came after the next one and kept that one out; a dead
# letter, deleted from the queue that it had left, which the model took for gone; a receive that was
# repeated after one of its messages was deleted, of which the model expected the others; a deletion
# that went on with the queue that was made anew; a message that was there twice before its sender
# had an answer, while a member joined, which the model did not expect.
EARLIER = 10, 605, 907, 1186, 1940, 1949, 2039, 1190, 1937
# A node short of space whose engine did not say how large it is; a repeated receive that met the
# give-back of its first attempt; a disk that failed where a segment was prepared; a message that
# was stored anew after a purge, which the model took for an older one; a receive that a node
# repeated while it was to wait, which the model did not see; a purge and a receive whose first
# attempts came when the call had been answered, which the model did not expect; a receive that was
# given back, by the news that its first attempt was left, while it waited for dead letters; a tag
# that a leader of yesterday said it had taken away: it knew of none; a queue that such a one had
# not heard of, and said so; an attribute that was as before after somebody had changed a tag, at a
# leader whose memory was older than its state; a member that was to be removed, of whom a node that
# lagged did not know that it had been let in again.
LATER = 331, 395, 1158, 1434, 1886, 3167, 3453, 3355, 62, 13, 1292, 880


@pytest.mark.parametrize("seed", EARLIER + LATER)
def test_a_seed_that_found_something_later_stays_good(seed: int) -> None:
    assert simulate(seed).operations > 0


@pytest.mark.parametrize(
    "name",
    [
        *("skip_fsync", "skip_flush", "answer_before_commit", "skip_conflicts", "forget_requests"),
        "end_plans_early",
    ],
)
def test_a_deliberate_bug_is_found(name: str) -> None:
    mutation(name, seed=1, seeds=12)


def test_a_leader_that_answers_after_others_have_replaced_it_is_found() -> None:
    """Some of these runs have clients who stay with such a leader."""
    assert " not one of " in mutation("stale_lease", seed=57, seeds=14)


def test_the_table_of_mutants_goes_between_its_marks(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_between(path, table({"skip_fsync": (3, "seed 3: it is | gone"), "no_delay": (0, "")}))
    page = path.read_text()
    assert "| the log is not synced (`skip_fsync`) | 3 | it is / gone |" in page
    assert page.index("skip_fsync") < page.index("no_delay") and "not found" in page
    assert page.startswith("before\n") and page.endswith("after\n") and "old" not in page
