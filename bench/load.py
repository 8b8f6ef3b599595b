"""The load generator from Python: build it when its sources changed, run it, read its answer."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

CRATE = Path(__file__).parent / "loadgen"
PROGRAM = CRATE / "target" / "release" / "loadgen"
# How much longer than its own bounds a run may take before it counts as hung.
SLACK_SECONDS = 30.0


class LoadError(Exception):
    """The load did not run; `reason` is what the load generator said."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Step(msgspec.Struct, frozen=True):
    """For one kind of request: answers of 200 in the window and their latencies, other answers in
    the window, statuses of the whole run.
    """

    name: str
    measured: int
    statuses: dict[int, int]
    p50_us: float
    p99_us: float
    p999_us: float
    max_us: float
    refused: int = 0


class Group(msgspec.Struct, frozen=True):
    """Connections that followed one flow."""

    kind: str
    connections: int
    messages_received: int
    messages_deleted: int
    receives_empty: int
    steps: list[Step]


class Outcome(msgspec.Struct, frozen=True):
    """What one run saw; times are of the window between warm-up and end."""

    elapsed_s: float
    client_cpu_s: float
    watched_cpu_s: float
    sent: int
    answered: int
    connections_lost: int
    first_failure: str | None
    groups: list[Group]
    unsent: int = 0

    @property
    def step(self) -> Step:
        """The only step of a run with one cycling group."""
        assert len(self.groups) == 1
        assert len(self.groups[0].steps) == 1
        return self.groups[0].steps[0]

    @property
    def rate(self) -> float:
        """Answers of 200 per second, all steps together."""
        measured = sum(step.measured for group in self.groups for step in group.steps)
        return measured / self.elapsed_s

    @property
    def client_share(self) -> float:
        """The part of one core that the load generator used itself."""
        return self.client_cpu_s / self.elapsed_s

    @property
    def server_cpu_us(self) -> float:
        """CPU microseconds of the watched processes per answer."""
        return self.watched_cpu_s * 1e6 / max(1.0, self.rate * self.elapsed_s)

    def check(self) -> None:
        """Raises unless every request was answered with 200."""
        if self.first_failure is not None:
            raise LoadError(f"an answer other than 200: {self.first_failure}")
        if self.answered != self.sent or self.connections_lost:
            lost = self.sent - self.answered
            raise LoadError(f"{lost} unanswered, {self.connections_lost} connections lost")


class Load(msgspec.Struct, frozen=True):
    """One bounded run; `cycles` and `consumers` are (connections, file of raw requests). With a
    `rate` the loop is open: so many requests are due per second.
    """

    target: str
    seconds: float
    cycles: Sequence[tuple[int, Path]] = ()
    consumers: Sequence[tuple[int, Path]] = ()
    warmup: float = 0.0
    count: int | None = None
    depth: int = 1
    rate: int | None = None
    core: int | None = None
    watched: Sequence[int] = ()
    stop_empty: int | None = None

    def arguments(self) -> list[str]:
        """The command line after the program's name."""
        pairs: list[tuple[str, object]] = [("target", self.target), ("seconds", self.seconds)]
        pairs += [("cycle", f"{count}:{file}") for count, file in self.cycles]
        pairs += [("consume", f"{count}:{file}") for count, file in self.consumers]
        pairs += [("warmup", self.warmup), ("depth", self.depth)]
        pairs += [("watch-pid", pid) for pid in self.watched]
        optional = {"count": self.count, "rate": self.rate, "core": self.core}
        optional |= {"stop-empty": self.stop_empty}
        pairs += [(name, value) for name, value in optional.items() if value is not None]
        return [part for name, value in pairs for part in (f"--{name}", str(value))]


def build() -> None:
    """Builds the program; cargo finds in a moment that nothing changed."""
    command = ["cargo", "build", "--release", "--quiet", "--locked"]
    subprocess.run(command, cwd=CRATE, check=True)


def run(load: Load) -> Outcome:
    """Runs the built program to its end."""
    limit = load.seconds + load.warmup + SLACK_SECONDS
    command = [str(PROGRAM), *load.arguments()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    if done.returncode != 0:
        raise LoadError(done.stderr.strip() or f"exit code {done.returncode}")
    return msgspec.json.decode(done.stdout, type=Outcome, strict=False)
