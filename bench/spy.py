"""Records the stacks of running nodes with py-spy, and reads what their threads used.

py-spy stops a process for a moment, reads its Python frames, unwinds its native ones and joins the
two; Cython functions appear with their own names and files. It needs the right to trace other
processes: root, or `kernel.yama.ptrace_scope=0`.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.server_process import ServerError
from bench.stages import Sampled, Stack, Thread

# Each sample stops the node for about a millisecond.
HERTZ = 99
END_SECONDS_MAX = 60.0
LINE = re.compile(r":\d+\)$")
LABEL = re.compile(r"thread \((\d+)\)")
# Reference counting that the compiler inlined, and code without symbols, say nothing.
NOISE = re.compile(r"^(Py_X?(DECREF|INCREF|NewRef)|Py_TYPE|Py_IS_TYPE|Py_SIZE|0x[0-9a-f]+) \(")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def program() -> str:
    """Where py-spy is: beside this interpreter, or on the path."""
    beside = Path(sys.prefix) / "bin" / "py-spy"
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise ServerError("py-spy is missing: pip install py-spy, which pyproject.toml pins")
    return found


@contextmanager
def recorded(pids: Sequence[int], directory: Path) -> Iterator[list[Sampled]]:
    """Samples while the body runs; the list is filled when it is left."""
    samples: list[Sampled] = []
    recorders = [begin(pid, directory) for pid in pids]
    try:
        yield samples
    finally:
        for recorder in recorders:
            recorder.send_signal(signal.SIGINT)
        problems = [end(recorder) for recorder in recorders]
    if any(problems):
        raise ServerError("py-spy is missing: pip install py-spy, which pyproject.toml pins")
    for pid in pids:
        samples += parse((directory / f"{pid}.raw").read_text())


def begin(pid: int, directory: Path) -> "subprocess.Popen[str]":
    """One recorder for each process."""
    options = ["--native", "--threads", "--format", "raw", "--rate", str(HERTZ)]
    command = [program(), "record", *options, "--output", str(directory / f"{pid}.raw")]
    return subprocess.Popen(
        [*command, "--pid", str(pid)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def end(recorder: "subprocess.Popen[str]") -> str:
    """What it complained about; nothing when it wrote its file."""
    try:
        _, said = recorder.communicate(timeout=END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        recorder.kill()
        _, said = recorder.communicate()
        return f"no end within {END_SECONDS_MAX:g} s. {said}"
    return "" if recorder.returncode == 0 else said


def parse(raw: str) -> Iterator[Sampled]:
    """The lines of a raw file: frames from the outermost inwards, and how often."""
    for line in raw.splitlines():
        frames, _, count = line.rpartition(" ")
        label, *stack = frames.split(";")
        if match := LABEL.match(label):
            yield Sampled(int(match[1]), tidied(stack), int(count))


def tidied(frames: Sequence[str]) -> Stack:
    """Without line numbers, noise and frames that repeat their caller."""
    kept: list[str] = []
    for frame in (LINE.sub(")", frame) for frame in frames):
        if not NOISE.match(frame) and frame not in kept[-1:]:
            kept.append(frame)
    return tuple(kept)


class Look(NamedTuple):
    """CPU seconds of a thread so far; the sum is exact, user and system are counted in ticks."""

    name: str
    exact: float
    user: float
    system: float


def look(pids: Sequence[int]) -> dict[int, Look]:
    """Every thread of these processes, by its number."""
    tasks = [task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
    return {int(task.name): look_at(task) for task in tasks}


def look_at(task: Path) -> Look:
    """One thread, as the kernel tells about it."""
    fields = (task / "stat").read_text().rpartition(")")[2].split()
    user, system = (int(ticks) / TICKS_PER_SECOND for ticks in fields[11:13])
    exact = int((task / "schedstat").read_text().split()[0]) / 1e9
    return Look((task / "comm").read_text().strip(), exact, user, system)


def used(before: Mapping[int, Look], after: Mapping[int, Look]) -> list[Thread]:
    """What each thread used between two looks; one that ended meanwhile is left out."""
    found = []
    for number, now in after.items():
        then = before.get(number, Look(now.name, 0.0, 0.0, 0.0))
        exact, user = now.exact - then.exact, now.user - then.user
        ticks = user + now.system - then.system
        share = user / ticks if ticks else 1.0
        found.append(Thread(number, now.name, exact * share, exact * (1 - share)))
    return found
