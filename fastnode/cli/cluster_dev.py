"""`fastnode cluster dev`: a whole cluster on this machine, to see it lose a node. Shell.

Each node is a `fastnode run` of its own, with one pipe for all that it writes: the end of the pipe
is the end of the node. The kernel ends the nodes if this process is killed, so none is left behind.
What is decided and shown is in `dev_plan.py`, what is found on disk in `dev_directory.py`.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from fastnode.cli import dev_plan
from fastnode.cli.cluster_table import Status, describe
from fastnode.cli.dev_directory import node_path, open_directory, secret_path
from fastnode.cli.dev_plan import Order, Place, Plan
from fastnode.errors import StartError, UsageError

_READY_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.2
_ASK_SECONDS: Final = 5.0
# A node promises to stop within ten.
_STOP_SECONDS: Final = 12.0
_READ_BYTES: Final = 65_536
_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None)


def dev(
    data_dir: str, wanted: Mapping[str, int], restart_after: float | None, program: str
) -> None:
    """Until it is told to stop. `wanted` are the fields of the plan that somebody chose."""
    directory = Path(data_dir).absolute()
    plan = open_directory(directory, wanted)
    asyncio.run(DevCluster(plan, directory, restart_after, program).run())


# --- one node -----------------------------------------------------------------------------------


class _Node:
    """A process, and the lines it writes. `on_end` is told its exit code."""

    def __init__(
        self, command: list[str], on_line: Callable[[str], None], on_end: Callable[[int], None]
    ) -> None:
        self._on_line = on_line
        self._on_end = on_end
        self._rest = b""
        self._process = subprocess.Popen(  # noqa: S603 (our own program)
            command,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # Ctrl-C is for this command alone, which then stops its nodes.
            start_new_session=True,
            preexec_fn=_end_with_parent(os.getpid()),
        )
        self.pid: Final = self._process.pid
        assert self._process.stdout is not None
        self._pipe = self._process.stdout
        asyncio.get_running_loop().add_reader(self._pipe, self._read)

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def _read(self) -> None:
        data = os.read(self._pipe.fileno(), _READ_BYTES)
        *lines, self._rest = (self._rest + data).split(b"\n")
        if self._rest and (not data or len(self._rest) > _READ_BYTES):
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            self._on_line(line.decode("utf-8", "replace"))
        if not data:
            asyncio.get_running_loop().remove_reader(self._pipe)
            self._pipe.close()
            self._on_end(self._process.wait())


def _environment() -> dict[str, str]:
    """The nodes run this program, wherever they are started."""
    here = str(Path(__file__).parents[2])
    paths = [here, os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _end_with_parent(parent: int) -> Callable[[], None]:
    def prepare() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent may have ended before the kernel was told.
        if os.getppid() != parent:
            os._exit(1)

    return prepare


# --- all of them --------------------------------------------------------------------------------


class DevCluster:
    def __init__(
        self, plan: Plan, directory: Path, restart_after: float | None, program: str
    ) -> None:
        self._plan = plan
        self._places = {place.node: place for place in dev_plan.places(plan)}
        self._directory = directory
        self._restart_after = restart_after
        self._program = program
        self._is_coloured = sys.stdout.isatty()
        self._nodes: dict[int, _Node] = {}
        self._stopping = asyncio.Event()
        self._all_ended = asyncio.Event()
        self._failure = ""
        self._is_ready = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """`StartError` if the nodes never became a cluster."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._stop)
        for node in self._places:
            self._start(node)
        self._listen_to_terminal()
        self._do(self._become_ready())
        await self._stopping.wait()
        await self._end_all()
        if self._failure:
            raise StartError(self._failure)

    # --- nodes -------------------------------------------------------------------------------

    def _start(self, node: int) -> None:
        if node in self._nodes or self._stopping.is_set():
            return
        data_dir, secret = node_path(self._directory, node), secret_path(self._directory)
        arguments = dev_plan.run_arguments(self._plan, self._places[node], data_dir, secret)
        self._nodes[node] = _Node(
            # -P: whatever is called fastnode in the working directory is not this program.
            [sys.executable, "-P", "-m", "fastnode", *arguments],
            lambda line: self._show(node, line),
            lambda code: self._ended(node, code),
        )
        self._say(f"node {node} is process {self._nodes[node].pid}")

    def _ended(self, node: int, code: int) -> None:
        del self._nodes[node]
        if not self._nodes:
            self._all_ended.set()
        if self._stopping.is_set():
            return
        if not self._is_ready:
            self._failure = f"node {node} ended at its start: its lines above say why"
            self._stop()
            return
        self._say(dev_plan.describe_end(node, code, self._restart_after))
        if self._restart_after is not None:
            asyncio.get_running_loop().call_later(self._restart_after, self._start, node)

    def _stop(self) -> None:
        """Asked a second time: at once."""
        if self._stopping.is_set():
            self._signal_all(signal.SIGKILL)
        self._stopping.set()

    async def _end_all(self) -> None:
        for task in self._tasks:
            task.cancel()
        if not self._nodes:
            return
        self._say("stopping all nodes")
        self._all_ended.clear()
        self._signal_all(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self._all_ended.wait()
        except TimeoutError:
            self._say("a node did not stop in time and is killed")
            self._signal_all(signal.SIGKILL)
            await self._all_ended.wait()
        self._say("all nodes have stopped")

    def _signal_all(self, number: signal.Signals) -> None:
        for node in self._nodes.values():
            node.send(number)

    # --- what they say of themselves -----------------------------------------------------------

    async def _become_ready(self) -> None:
        try:
            async with asyncio.timeout(_READY_SECONDS):
                for place in self._places.values():
                    await _until_ready(place)
                status = await self._status()
        except TimeoutError:
            self._failure = f"no cluster after {_READY_SECONDS:g} s: its lines above say why"
            self._stop()
            return
        self._is_ready = True
        self._write(dev_plan.describe_guide(self._plan, self._pids(), status, self._program))

    async def _status(self) -> Status:
        """As the first node tells that answers; one that is stopped does not."""
        for node in sorted(self._nodes):
            code, body = await _ask(self._places[node], "/api/v1/cluster")
            if code == 200:
                return msgspec.json.decode(body, type=Status)
        raise TimeoutError("no node tells its state")

    def _pids(self) -> dict[int, int]:
        return {number: node.pid for number, node in self._nodes.items()}

    # --- the terminal --------------------------------------------------------------------------

    def _listen_to_terminal(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            descriptor = sys.stdin.fileno()
            # In the background, reading would stop this process.
            if not os.isatty(descriptor) or os.tcgetpgrp(descriptor) == os.getpgrp():
                # A file, or nothing, cannot be listened to: that is the OSError.
                asyncio.get_running_loop().add_reader(descriptor, self._hear, descriptor)

    def _hear(self, descriptor: int) -> None:
        data = os.read(descriptor, _READ_BYTES)
        if not data:
            asyncio.get_running_loop().remove_reader(descriptor)
        for line in data.decode("utf-8", "replace").splitlines():
            try:
                order = dev_plan.parse_order(line, self._plan)
            except UsageError as error:
                self._say(str(error))
            else:
                self._do(self._obey(order)) if order else None

    async def _obey(self, order: Order) -> None:
        if order.verb == "start":
            self._start(int(order.subject))
        elif order.verb == "kill":
            self._kill(int(order.subject))
        elif order.verb == "help":
            self._write(dev_plan.describe_orders())
        else:
            await self._look(order)

    async def _look(self, order: Order) -> None:
        try:
            status = await self._status()
        except TimeoutError as error:
            self._say(str(error))
            return
        if order.verb == "status":
            self._write(describe(status))
        else:
            self._say(dev_plan.describe_leader(order.subject, self._plan, status, self._pids()))

    def _kill(self, node: int) -> None:
        if node in self._nodes:
            self._nodes[node].send(signal.SIGKILL)
        else:
            self._say(f"node {node} does not run")

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _say(self, text: str) -> None:
        self._show(0, text)

    def _show(self, node: int, line: str) -> None:
        self._write(dev_plan.prefix(node, is_coloured=self._is_coloured) + line + "\n")

    def _write(self, text: str) -> None:
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError:
            # Whoever read along has gone. What is still to be said must not fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self._stopping.set()


async def _until_ready(place: Place) -> None:
    while True:
        code, _ = await _ask(place, "/readyz")
        if code == 200:
            return
        await asyncio.sleep(_LOOK_SECONDS)


async def _ask(place: Place, path: str) -> tuple[int, bytes]:
    """Status and body of an answer of a node's admin listener; 0 if there is none."""
    request = f"GET {path} HTTP/1.1\r\nHost: {place.admin}\r\nConnection: close\r\n\r\n"
    try:
        async with asyncio.timeout(_ASK_SECONDS):
            reader, writer = await asyncio.open_connection(place.admin.host, place.admin.port)
            with contextlib.closing(writer):
                writer.write(request.encode())
                head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
        return int(head.split()[1]), body
    except (OSError, TimeoutError, ValueError, IndexError):
        return 0, b""
