"""A node beside other servers that speak SQS, under the same load in the same run.

    python -m bench.peers [--short] [--only PEERS] [--rows ROWS] [--seconds S] [--page DIRECTORY]

Peers are fetched with the tools of their own world (Maven, npm, Go) into `build/peers/`; one whose
tools or download are missing is reported with the reason, and the rest goes on. Our node runs with
its defaults and verifies signatures; theirs run as they come. Prints the tables, writes
`build/peers.json`, and for a whole run `docs/performance/peers.md` and `peers.svg`; any other run
writes these two into `build/`.
Exit codes: 0 it ran, also if a peer is missing; 2 it could not run.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path

import msgspec

from bench import load, machine, peer_load, peer_report, peer_servers, program
from bench.peer_load import ROWS, Contestant, Row, Slice
from bench.peer_report import Cell, Comparison, Entrant, Line
from bench.peer_servers import PEERS, Peer, PeerMissing
from bench.rig import Echo, Plan, Rig, rig_in
from bench.server_process import ROOT, Server, ServerError

OURS = "fastnode"
PAGE = ROOT / "docs" / "performance"
FULL = Plan(turns=3, warmup_seconds=0.4)
SHORT = Plan(turns=1, slice_seconds=0.2, warmup_seconds=0.05, scale=0.01)
# Compilers that learn while a program runs get so many slices for each turn, before the first one.
LEARNING_SLICES = 7
# What goes wrong with one server and leaves the others measurable.
TROUBLE = (*program.PROBLEMS, HTTPException)


def say(text: str) -> None:
    """A line of progress."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


# --- entrants ------------------------------------------------------------------------------------


def our_entrant() -> Entrant:
    return Entrant(
        name=OURS,
        version=machine.package_version(OURS),
        runtime="CPython, Cython, Rust",
        stored="on disk, synced",
        replicated="none: a single node",
        verified="yes",
    )


def peer_entrant(peer: Peer, problem: str | None = None) -> Entrant:
    return Entrant(
        name=peer.name,
        version=peer.version,
        runtime=peer.runtime if problem else f"{peer.runtime} {tool_version(peer)}".rstrip(),
        stored="in memory",
        replicated="none",
        verified="no",
        problem=problem,
    )


def tool_version(peer: Peer) -> str:
    """The version of what it runs on, unless that is pinned with the peer."""
    if not peer.version_command:
        return ""
    done = subprocess.run(
        peer.version_command, capture_output=True, text=True, timeout=30, check=False
    )
    return first_version(done.stdout + done.stderr)


def first_version(text: str) -> str:
    """The first thing in a text that looks like a version."""
    found = re.search(r"\d+\.\d+(\.\d+)?", text)
    return found[0] if found else "of unknown version"


def enter_peer(
    peer: Peer, parent: Path, stack: ExitStack, core: int | None
) -> tuple[Entrant, Server | None]:
    """A running peer, or why it does not run."""
    say(f"{peer.name} {peer.version}: fetched now, unless it is there")
    try:
        home = peer_servers.fetch(peer, parent)
        server = stack.enter_context(peer_servers.running(peer, home, core))
    except (PeerMissing, ServerError) as problem:
        say(f"{peer.name}: not run: {problem}")
        return peer_entrant(peer, str(problem)), None
    return peer_entrant(peer), server


# --- turns ---------------------------------------------------------------------------------------


class Ring:
    """The servers that take turns; all but the one whose turn it is are stopped."""

    def __init__(self, rig: Rig, echo: Echo, contestants: Sequence[Contestant]) -> None:
        self._rig, self._echo, self._contestants = rig, echo, contestants

    @contextmanager
    def _turn_of(self, server: Server) -> Iterator[None]:
        """Work that a server put off, such as compaction, must not fall into another's turn."""
        others = [self._echo.server, *(one.server for one in self._contestants)]
        pids = [pid for other in others if other != server for pid in other.process_ids()]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def learn(self) -> None:
        """Load before anything is measured; whoever fails here fails in its rows too."""
        slices = LEARNING_SLICES * self._rig.plan.turns
        for one in self._contestants:
            with self._rig.step(f"{one.name}: load that is not measured"):
                try:
                    with self._turn_of(one.server):
                        peer_load.steady(one, slices=slices)
                except TROUBLE as problem:
                    say(f"{one.name}: {problem}")

    def measure(self, row: Row) -> Line:
        """All turns of a row; each begins with another server, so that drift favours none. A server
        is judged by the echo server just before it and just after it.
        """
        name, turns = row.name(self._rig), self._rig.plan.turns
        echo = Cell()
        cells = {one.name: Cell() for one in self._contestants}
        for turn in self._rig.turns(name, min(turns, row.turns_max or turns)):
            start = turn % len(self._contestants)
            before = self._yardstick(row)
            for one in [*self._contestants[start:], *self._contestants[:start]]:
                if cells[one.name].problem is not None:
                    continue
                found = self._attempt(row, one)
                after = self._yardstick(row)
                echo_rate = (before.per_second + after.per_second) / 2
                cells[one.name] = with_outcome(cells[one.name], found, echo_rate)
                echo = with_outcome(echo, after, echo_rate)
                say(f"{name}: {one.name} {progress(cells[one.name])}")
                before = after
        return Line(row.key, name, echo, cells)

    def _yardstick(self, row: Row) -> Slice:
        with self._turn_of(self._echo.server):
            return peer_load.echo(self._echo, row.connections)

    def _attempt(self, row: Row, one: Contestant) -> Slice | str:
        """A slice, or what went wrong."""
        try:
            with self._turn_of(one.server):
                return row.measure(one)
        except TROUBLE as problem:
            return str(problem) or type(problem).__name__


def with_outcome(cell: Cell, found: Slice | str, echo_rate: float) -> Cell:
    """The cell with the figures of one more turn; one failure is enough for none."""
    if isinstance(found, str):
        return Cell(problem=found)
    return Cell(
        ratios=[*cell.ratios, found.per_second / echo_rate],
        cpu_us=[*cell.cpu_us, found.cpu_us],
        per_second=[*cell.per_second, found.per_second],
        client_shares=[*cell.client_shares, found.client_share],
        notes=[*cell.notes, found.note] if found.note else cell.notes,
    )


def progress(cell: Cell) -> str:
    if cell.problem is not None:
        return f"failed: {cell.problem}"
    return f"{cell.per_second[-1]:,.0f}/s, {cell.ratios[-1]:.2f} x echo"


# --- all of it -----------------------------------------------------------------------------------


def compare(parent: Path, plan: Plan, rows: Sequence[Row], peers: Sequence[Peer]) -> Comparison:
    """Starts everybody, takes all turns, stops everybody."""
    load.build()
    with tempfile.TemporaryDirectory(prefix="peers-", dir=parent) as name, ExitStack() as stack:
        rig = rig_in(Path(name), plan, say)
        echo = stack.enter_context(rig.echo())
        ours = stack.enter_context(rig.node("data"))
        theirs = [enter_peer(peer, parent / "peers", stack, rig.server_core) for peer in peers]
        entered = [(our_entrant(), ours), *theirs]
        contestants = [
            Contestant(entrant.name, server, rig) for entrant, server in entered if server
        ]
        ring = Ring(rig, echo, contestants)
        ring.learn()
        lines = [ring.measure(row) for row in rows]
        conditions = machine.describe(rig.directory)
    return Comparison(
        measured_at=datetime.now(UTC),
        machine=conditions,
        plan=plan,
        entrants=[entrant for entrant, _ in entered],
        lines=lines,
    )


def write(comparison: Comparison, json_file: Path, page: Path) -> None:
    """The figures, the page and its picture."""
    program.write(json_file, comparison)
    page.mkdir(parents=True, exist_ok=True)
    (page / "peers.md").write_text(peer_report.markdown(comparison, "peers.svg"))
    (page / "peers.svg").write_text(peer_report.chart(comparison))


# --- the command line ----------------------------------------------------------------------------


def parse_arguments(arguments: Sequence[str] | None, peers: Sequence[Peer]) -> argparse.Namespace:
    parser = program.options("peers", "a node beside its peers")
    names = [peer.name.lower() for peer in peers]
    keys = [row.key for row in ROWS]
    parser.add_argument("--only", type=some_of(names), metavar="PEERS", help=f"of {names}")
    parser.add_argument("--rows", type=some_of(keys), metavar="ROWS", help=f"of {keys}")
    parser.add_argument("--seconds", type=float, help="of a turn")
    parser.add_argument("--page", type=Path, metavar="DIRECTORY", help="of peers.md and peers.svg")
    return parser.parse_args(arguments)


def some_of(known: Sequence[str]) -> Callable[[str], list[str]]:
    """A reader of names between commas."""

    def read(text: str) -> list[str]:
        names = [name for name in text.split(",") if name]
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(known)}")
        return names

    return read


def interrupt(_number: int, _frame: object) -> None:
    """A request to end unwinds like Ctrl-C, so that nothing that was started is left behind."""
    raise KeyboardInterrupt


def main(
    arguments: Sequence[str] | None = None,
    *,
    peers: Sequence[Peer] = PEERS,
    plan: Plan | None = None,
) -> int:
    """Measures, prints, writes."""
    chosen = parse_arguments(arguments, peers)
    plan = plan or (SHORT if chosen.short else FULL)
    if chosen.seconds is not None:
        plan = msgspec.structs.replace(plan, slice_seconds=chosen.seconds)
    if chosen.only is not None:
        peers = [peer for peer in peers if peer.name.lower() in chosen.only]
    rows = [row for row in ROWS if chosen.rows is None or row.key in chosen.rows]
    is_whole = not chosen.short and chosen.only is None and chosen.rows is None
    try:
        comparison = compare(program.data_directory(chosen), plan, rows, peers)
    except program.PROBLEMS as problem:
        return program.refuse(str(problem))
    print(*comparison.machine.lines(), "", peer_report.render(comparison), sep="\n")
    write(comparison, chosen.json, chosen.page or (PAGE if is_whole else chosen.json.parent))
    return 0


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
