"""Faults done to a cluster of real nodes, begun and ended. What and when is `plan.py`'s.

The wall clock of one node is moved by libfaketime from a file that it reads again every second; its
steady clocks are left alone. The disk that is filled is a file system in memory, of one node.
"""

import contextlib
import importlib.util
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.chaos.plan import CLOCK_STEP_SECONDS, Fault
from tests.cluster.harness import Cluster, Member, eventually, run_command
from tests.small_disk import fill_up

DELAY_SECONDS: Final = 0.3
LOSS: Final = 0.3


def clock_variables(path: Path) -> dict[str, str] | None:
    """For a process whose wall clock is off by what the file says; None where there is none."""
    found = importlib.util.find_spec("libfaketime")
    if found is None or found.origin is None:
        return None
    library = Path(found.origin).parent / "vendor/libfaketime/src/libfaketime.so.1"
    if not library.exists():
        return None
    path.write_text("+0\n")
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(path),
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_CACHE_DURATION": "1",
    }


class Hurt:
    """Each kind of fault has a method of its name, which returns what ends it."""

    def __init__(self, cluster: Cluster, clocks: Path, disk: Path | None) -> None:
        self._cluster = cluster
        self._clocks = clocks
        self._disk = disk
        # A node that is started on a full disk may refuse, and is started again when there is room.
        self._refusing = 0

    def begin(self, fault: Fault) -> Callable[[], None]:
        begin: Callable[[Fault], Callable[[], None]] = getattr(self, fault.kind.replace(" ", "_"))
        return begin(fault)

    def _member(self, number: int) -> Member:
        return self._cluster.members[number]

    def _launch(self, member: Member) -> None:
        if member.is_started and not member.is_running:
            tail = member.stderr_tail()
            assert member.number == self._refusing, f"node {member.number} ended by itself\n{tail}"
            member.kill()
        if not member.is_started:
            member.launch()

    # --- processes ------------------------------------------------------------------------------

    def kill(self, fault: Fault) -> Callable[[], None]:
        member = self._member(fault.node)
        self._launch(member)
        member.kill()
        return lambda: self._launch(member)

    def kill_all(self, _fault: Fault) -> Callable[[], None]:
        members = list(self._cluster.members.values())
        for member in members:
            self._launch(member)
            member.kill()

        def end() -> None:
            for member in members:
                self._launch(member)

        return end

    def stop(self, fault: Fault) -> Callable[[], None]:
        """In good order. One that has not even come up may be killed by the signal."""
        member = self._member(fault.node)
        self._launch(member)
        member.process.send_signal(signal.SIGTERM)

        def end() -> None:
            code = member.await_end()
            assert code in (0, -signal.SIGTERM), f"node {member.number} stopped with {code}"
            self._launch(member)

        return end

    def pause(self, fault: Fault) -> Callable[[], None]:
        member = self._member(fault.node)
        self._launch(member)
        member.pause()
        return member.resume

    # --- links ----------------------------------------------------------------------------------

    def isolate(self, fault: Fault) -> Callable[[], None]:
        self._cluster.network.isolate(fault.node, self._cluster.members)
        return self._cluster.network.heal

    def cut(self, fault: Fault) -> Callable[[], None]:
        self._cluster.network.cut((fault.node, fault.other))
        return self._cluster.network.heal

    def one_way(self, fault: Fault) -> Callable[[], None]:
        self._cluster.network.cut_one_way((fault.node, fault.other))
        return self._cluster.network.heal

    def delay(self, fault: Fault) -> Callable[[], None]:
        seconds = DELAY_SECONDS * fault.amount
        self._cluster.network.disturb(self._cluster.members, delay_seconds=seconds)
        return self._cluster.network.heal

    def loss(self, fault: Fault) -> Callable[[], None]:
        self._cluster.network.disturb(self._cluster.members, loss=LOSS * fault.amount)
        return self._cluster.network.heal

    def transfer(self, fault: Fault) -> Callable[[], None]:
        """An operator's wish, which a cluster in trouble may refuse."""
        admin = self._cluster.network.place(fault.other).admin
        run_command("cluster", "transfer", "--to", str(fault.node), "--admin", admin)
        return lambda: None

    # --- disks and clocks -----------------------------------------------------------------------

    def clock(self, fault: Fault) -> Callable[[], None]:
        """Set, while the process runs; it stays so when the fault is over, as clocks do."""
        step = round((2 * fault.amount - 1) * CLOCK_STEP_SECONDS)
        (self._clocks / f"clock{fault.node}").write_text(f"{step:+d}\n")
        return lambda: None

    def full_disk(self, fault: Fault) -> Callable[[], None]:
        assert self._disk is not None
        self._refusing = fault.node
        ballast = self._disk / "ballast"
        descriptor = os.open(ballast, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        fill_up(descriptor)
        os.close(descriptor)

        def end() -> None:
            ballast.unlink()
            self._launch(self._member(fault.node))

        return end

    # --- the end --------------------------------------------------------------------------------

    def mend(self) -> None:
        """Everything runs and is ready; what has ended by itself is a failure."""
        self._cluster.network.heal()
        for member in self._cluster.members.values():
            if member.is_running:
                with contextlib.suppress(ProcessLookupError):
                    member.resume()
            self._launch(member)
        for member in self._cluster.members.values():
            eventually(f"node {member.number} is ready", member.is_ready, 120.0)
        self._cluster.await_leaders()
