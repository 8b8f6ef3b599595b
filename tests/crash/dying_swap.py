"""Processes that bring a group's state from one directory to another, or recover such a swap, and
end themselves with SIGKILL: the n-th of them at its n-th step.

    python -m tests.crash.dying_swap receive|swap|recover FIRST_STEP CASE_DIRECTORY...

A case is a directory with `source/000` and `data/groups/000`. A step of `receive` is a snapshot
taken, a chunk received or a state verified; a step of `swap` and of `recover` is one change of the
file system. Prints a line per case: killed, or ended when there were fewer steps. The processes
are forks of this one, so that a step costs no start of an interpreter.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from fastnode.store import snapshot, swap
from fastnode.store.engine import RocksEngine
from fastnode.store.engine_options import EngineShared
from fastnode.store.snapshot import Receiver
from tests.crash.dying_node import Step, after, at_pass, before

GROUP: Final = 0


def install(case: Path) -> None:
    """Everything that a transfer does, without the network."""
    source, target = case / "source" / "000", target_of(case)
    engine = RocksEngine(source, EngineShared())
    taken = snapshot.take_snapshot(engine, GROUP, source)
    encoded = snapshot.encode_manifest(taken.manifest)
    receiver = Receiver(GROUP, target, snapshot.decode_manifest(encoded, target))
    for chunk in taken.chunks():
        receiver.write(chunk)
    receiver.verify()
    receiver.install()
    taken.discard()
    engine.close()


def recover(case: Path) -> None:
    swap.recover_swap(target_of(case))


def target_of(case: Path) -> Path:
    return case / "data" / "groups" / "000"


def receive_steps(step: Step) -> None:
    after(snapshot, "take_snapshot")(step)
    after(Receiver, "write")(step)
    after(Receiver, "verify")(step)


ACTS: Final[dict[str, tuple[Callable[[Step], None], Callable[[Path], None]]]] = {
    "receive": (receive_steps, install),
    "swap": (before(swap, "perform"), install),
    "recover": (before(swap, "perform"), recover),
}


def outcome_of(name: str, number: int, case: Path) -> str:
    child = os.fork()
    if child == 0:
        run(name, number, case)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return {0: "ended", -signal.SIGKILL: "killed"}.get(code, f"failed with {code}")


def run(name: str, number: int, case: Path) -> None:
    """The life of a fork: it never returns."""
    try:
        patch, act = ACTS[name]
        patch(at_pass(number))
        act(case)
        os._exit(0)
    finally:
        traceback.print_exc()
        os._exit(1)


def main(arguments: Sequence[str]) -> int:
    name, first, *cases = arguments
    for number, case in enumerate(cases, start=int(first)):
        sys.stdout.write(outcome_of(name, number, Path(case)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
