"""A node that samples its own main thread: `python -m bench.sampled_node FILE run ...`.

SIGUSR1 begins a profile, SIGUSR2 ends it and writes FILE. A timer of CPU time interrupts the
process; the handler runs on the main thread between two bytecodes and books the CPU time of that
thread since the last sample on the Python stack it finds. So the sum is exact, and only its
distribution is sampled. Time in compiled code shows at the Python line that called it; time in the
event loop and the kernel between two callbacks shows where the next callback begins.
"""

import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from types import FrameType

import msgspec

from fastnode.__main__ import main

# The kernel rounds this up to its tick, 1 to 4 ms.
INTERVAL_SECONDS = 0.001
DEPTH_MAX = 60

Stack = tuple[tuple[str, str, int], ...]


class Profile(msgspec.Struct):
    """CPU nanoseconds by stack, innermost frame first; a frame is (file, function, line)."""

    seconds_main: float
    seconds_all_threads: float
    stacks: list[tuple[Stack, int]]


class Sampler:
    """The signal handlers and what they collect."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.stacks: Counter[Stack] = Counter()
        self.booked_ns = 0
        self.begun_all_ns = 0

    def install(self) -> None:
        """From here on the three signals are ours."""
        signal.signal(signal.SIGUSR1, self.begin)
        signal.signal(signal.SIGUSR2, self.end)
        signal.signal(signal.SIGPROF, self.sample)
        # The timer interrupts whichever thread runs: its system calls must go on as if nothing was.
        signal.siginterrupt(signal.SIGPROF, False)

    def begin(self, _signal: int, _frame: FrameType | None) -> None:
        """Forgets what was and starts the timer."""
        self.stacks.clear()
        self.booked_ns = time.thread_time_ns()
        self.begun_all_ns = time.process_time_ns()
        signal.setitimer(signal.ITIMER_PROF, INTERVAL_SECONDS, INTERVAL_SECONDS)

    def sample(self, _signal: int, frame: FrameType | None) -> None:
        """Books the time since the last sample on the stack that was interrupted."""
        now_ns = time.thread_time_ns()
        self.stacks[stack_of(frame)] += now_ns - self.booked_ns
        self.booked_ns = now_ns

    def end(self, _signal: int, _frame: FrameType | None) -> None:
        """Stops the timer; the file appears complete or not at all."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        all_ns = time.process_time_ns() - self.begun_all_ns
        stacks = list(self.stacks.items())
        profile = Profile(self.stacks.total() / 1e9, all_ns / 1e9, stacks)
        partial = self.file.with_suffix(".partial")
        partial.write_bytes(msgspec.json.encode(profile))
        os.replace(partial, self.file)


def stack_of(frame: FrameType | None) -> Stack:
    """The frames from the innermost outwards."""
    frames: list[tuple[str, str, int]] = []
    while frame is not None and len(frames) < DEPTH_MAX:
        code = frame.f_code
        frames.append((code.co_filename, code.co_qualname, frame.f_lineno or 0))
        frame = frame.f_back
    return tuple(frames)


if __name__ == "__main__":
    Sampler(Path(sys.argv[1])).install()
    sys.exit(main(sys.argv[2:]))
