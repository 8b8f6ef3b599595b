"""What a replay will do: its settings, checked, and who does which part. Pure.

Producer lanes come first, then consumer lanes, each one task. Every consumer of a queue belongs to
one lane; they are dealt out in turn.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from spark_load.errors import LoadError
from spark_load.replay.attempts import RetryPolicy
from spark_load.replay.signing import Credentials
from spark_load.schema import Consumers, TraceHeader

PORTS: Final = {"http": 80, "https": 443}
LANES_MAX: Final = 1_024
CONNECTIONS_MAX: Final = 16_384


class Endpoint(NamedTuple):
    """Where a cluster's API is."""

    scheme: str
    host: str
    port: int

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


@dataclass(frozen=True)
class Settings:
    """How to replay, whatever the trace."""

    endpoints: tuple[Endpoint, ...]
    credentials: Credentials
    lanes: int = 1
    consumer_lanes: int = 1
    connections: int = 128
    speed: float = 1.0
    is_open_loop: bool = True
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    call_seconds: float = 30.0
    drain_seconds: float = 300.0
    # From the moment the last lane is ready: the tasks of a barrier ask only once a second whether
    # they may go on.
    start_seconds: float = 2.0
    ca_file: str | None = None
    # Whether lanes measure their clocks, for which each of them creates a queue for a moment.
    measures_clock: bool = True


class ConsumerSpec(NamedTuple):
    """One consumer."""

    queue: str
    number: int
    behaviour: Consumers


@dataclass(frozen=True)
class Plan:
    """A replay of one trace."""

    trace: TraceHeader
    settings: Settings

    @property
    def producer_lanes(self) -> range:
        return range(self.settings.lanes)

    @property
    def consumer_lanes(self) -> range:
        """Not more than there are consumers."""
        first = self.settings.lanes
        return range(first, first + min(self.settings.consumer_lanes, len(self.consumers())))

    @property
    def tasks(self) -> int:
        return len(self.producer_lanes) + len(self.consumer_lanes)

    def consumers(self) -> list[ConsumerSpec]:
        return list(_consumers(self.trace))

    def consumers_of(self, lane: int) -> list[ConsumerSpec]:
        if lane not in self.consumer_lanes:
            return []
        turn = lane - self.settings.lanes
        return self.consumers()[turn :: len(self.consumer_lanes)]

    @property
    def visibility_seconds(self) -> int:
        """The longest lease of any consumer: so long after the end a message may come back."""
        return max((spec.behaviour.visibility_seconds for spec in self.consumers()), default=0)

    @property
    def seconds(self) -> float:
        return self.trace.duration_us / self.settings.speed / 1e6

    def describe(self) -> Iterator[str]:
        """What would run, for a person."""
        trace, settings = self.trace, self.settings
        loop = "open loop" if settings.is_open_loop else "closed loop"
        yield f"trace {trace.trace_id} ({trace.workload}): {trace.operations} operations, " + (
            f"{trace.messages} messages in {self.seconds:.1f} s (speed {settings.speed:g})"
        )
        yield f"to {', '.join(endpoint.url for endpoint in settings.endpoints)}, {loop}, " + (
            f"{settings.lanes} producer lanes, {len(self.consumer_lanes)} consumer lanes, "
            f"up to {settings.connections} connections each"
        )
        for queue in trace.queues:
            count = queue.consumers.count if queue.consumers else 0
            yield f"queue {queue.name}: {count} consumers"


def _consumers(trace: TraceHeader) -> Iterator[ConsumerSpec]:
    for queue in trace.queues:
        if queue.consumers is not None:
            for number in range(queue.consumers.count):
                yield ConsumerSpec(queue.name, number, queue.consumers)


def parse_endpoint(text: str) -> Endpoint:
    """`http://host:port`; anything else is a LoadError that says so."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise LoadError(f"not an endpoint: {text!r}; expected http://host:port") from None
    if parts.scheme not in PORTS or not parts.hostname or parts.path not in ("", "/"):
        raise LoadError(f"not an endpoint: {text!r}; expected http://host:port")
    return Endpoint(parts.scheme, parts.hostname, port or PORTS[parts.scheme])


def check(settings: Settings) -> None:
    """Limits that make sense of the rest."""
    _between("--lanes", settings.lanes, 1, LANES_MAX)
    _between("--consumer-lanes", settings.consumer_lanes, 1, LANES_MAX)
    _between("--connections", settings.connections, 1, CONNECTIONS_MAX)
    _between("--attempts", settings.retries.attempts, 1, 100)
    _between("--speed", settings.speed, 1e-6, 1e6)
    _between("--timeout", settings.call_seconds, 0.001, 3_600)
    _between("--drain", settings.drain_seconds, 0, 86_400)


def _between(flag: str, value: float, lowest: float, highest: float) -> None:
    if not lowest <= value <= highest:
        raise LoadError(f"{flag} {value:g}: expected {lowest:g} to {highest:g}")


def endpoints_of(texts: Sequence[str]) -> tuple[Endpoint, ...]:
    if not texts:
        raise LoadError("no endpoint: give --endpoint http://host:port")
    return tuple(map(parse_endpoint, texts))
