"""A node that ends itself with SIGKILL when it passes a chosen point for the n-th time.

    python -m tests.crash.dying_node POINT PASS FLUSH_SECONDS -- run --data-dir DIRECTORY ...

The product is patched from outside, so it carries no code for this. Housekeeping looks around
several times a second and flushes as often as asked: a short test then meets flushes and
compactions of the log.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from fastnode import __main__ as program
from fastnode import config, upkeep
from fastnode.raft.groups import Groups
from fastnode.store.engine import RocksEngine
from fastnode.store.sums import Sums

CHECK_SECONDS: Final = 0.1
USAGE: Final = "usage: dying_node POINT PASS FLUSH_SECONDS -- run ..."
NEVER: Final = 1_000_000_000

Step = Callable[[], None]


def command_of(
    plain: Sequence[str], point: str, number: int, *, flush_seconds: float = CHECK_SECONDS
) -> list[str]:
    """The command line that does what `python -m fastnode ...` does, and dies at the pass."""
    python, _, _, *arguments = plain
    chosen = [point, str(number), str(flush_seconds)]
    return [python, "-m", "tests.crash.dying_node", *chosen, "--", *arguments]


def die() -> None:
    """Nothing of this process runs after this line."""
    os.kill(os.getpid(), signal.SIGKILL)


def at_pass(number: int) -> Step:
    """A step that is the process's last one at its n-th call."""
    lock, left = threading.Lock(), [number]

    def step() -> None:
        with lock:
            left[0] -= 1
            if left[0] == 0:
                die()

    return step


def before(owner: type | ModuleType, name: str) -> Callable[[Step], None]:
    def install(step: Step) -> None:
        original = getattr(owner, name)

        def patched(*arguments: Any, **named: Any) -> Any:
            step()
            return original(*arguments, **named)

        setattr(owner, name, patched)

    return install


def after(owner: type | ModuleType, name: str) -> Callable[[Step], None]:
    def install(step: Step) -> None:
        original = getattr(owner, name)

        def patched(*arguments: Any, **named: Any) -> Any:
            result = original(*arguments, **named)
            step()
            return result

        setattr(owner, name, patched)

    return install


def ready_when(chosen: Callable[[Any], bool]) -> Callable[[Step], None]:
    """After a turn of the log that brought something chosen."""

    def install(step: Step) -> None:
        original = Groups.ready

        def patched(self: Groups, *, here: bool = False) -> Any:
            # Whoever asks, the log's thread writes: so there is a turn that has only begun a block.
            ready = original(self)
            if chosen(ready):
                step()
            return ready

        setattr(Groups, "ready", patched)  # noqa: B010 - mypy forbids the plain assignment

    return install


def compact(wrap: Callable[[type, str], Callable[[Step], None]]) -> Callable[[Step], None]:
    """`compact` is bound to each instance: it is given back to the class before it is wrapped."""

    def install(step: Step) -> None:
        original = Groups.__init__

        def patched(self: Groups, *arguments: Any) -> None:
            original(self, *arguments)
            bound = self.compact
            holder = type("Holder", (), {"compact": staticmethod(bound)})
            wrap(holder, "compact")(step)
            self.compact = holder.compact  # type: ignore[attr-defined]  # set just above

        setattr(Groups, "__init__", patched)  # noqa: B010 - mypy forbids the plain assignment

    return install


def range_drop(when: str) -> Callable[[Step], None]:
    """Before or after the write of a batch that drops a range."""

    def install(step: Step) -> None:
        dropping: list[bool] = []
        note = after(Sums, "drop")
        note(lambda: dropping.append(True))
        write = RocksEngine.write

        def patched(self: RocksEngine, batch: Any) -> None:
            is_drop, dropping[:] = bool(dropping), []
            if is_drop and when == "before":
                step()
            write(self, batch)
            if is_drop and when == "after":
                step()

        setattr(RocksEngine, "write", patched)  # noqa: B010 - mypy forbids the plain assignment

    return install


def flush_during(step: Step) -> None:
    """At the first sight of a file that the flush makes, which is then most likely unfinished."""
    original = RocksEngine.flush

    def patched(self: RocksEngine) -> None:
        old = table_files(self.path)
        flushing = threading.Thread(target=original, args=(self,))
        flushing.start()
        while flushing.is_alive() and table_files(self.path) == old:
            pass
        step()
        flushing.join()

    setattr(RocksEngine, "flush", patched)  # noqa: B010 - mypy forbids the plain assignment


def table_files(path: Path) -> set[str]:
    return {name for name in os.listdir(path) if name.endswith((".sst", ".blob"))}


POINTS: Final[dict[str, Callable[[Step], None]]] = {
    "before-propose": before(Groups, "propose"),
    "after-propose": after(Groups, "propose"),
    "while-log-is-written": ready_when(lambda ready: ready.is_persisting and not ready.committed),
    "after-log-fsync": ready_when(lambda ready: bool(ready.committed)),
    "before-apply": before(RocksEngine, "write"),
    "after-apply": after(RocksEngine, "write"),
    "before-flush": before(RocksEngine, "flush"),
    "during-flush": flush_during,
    "after-flush": after(RocksEngine, "flush"),
    "before-compact": compact(before),
    "after-compact": compact(after),
    "before-range-drop": range_drop("before"),
    "after-range-drop": range_drop("after"),
}


def hurry_upkeep(flush_seconds: float) -> None:
    # Both are constants for the product and for mypy.
    setattr(upkeep, "CHECK_SECONDS", CHECK_SECONDS)  # noqa: B010
    setattr(config, "FLUSH_INTERVAL_SECONDS", flush_seconds)  # noqa: B010


def main(arguments: Sequence[str]) -> int:
    if len(arguments) < 4 or arguments[0] not in POINTS or arguments[3] != "--":
        sys.exit(USAGE)
    point, number, flush_seconds = arguments[:3]
    hurry_upkeep(float(flush_seconds))
    POINTS[point](at_pass(int(number)))
    return program.main(arguments[4:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
