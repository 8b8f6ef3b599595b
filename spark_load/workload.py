"""Workload files: TOML → `Workload`, checked as a whole before Spark is started.

What a workload is made of; how its operations follow from it is `arrivals.py`, `draws.py` and
`generate.py`. Every complaint is one line that names the table and the key.
"""

import hashlib
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from spark_load import arrivals
from spark_load.draws import Sizes, fixed_size, histogram_sizes, lognormal_sizes
from spark_load.errors import LoadError
from spark_load.names import nearest
from spark_load.schema import BATCH_MAX, TRACE_ACTIONS, Consumers, Queue
from spark_load.toml_fields import Fields, parse_duration_us

READY_MADE: Final = Path(__file__).parent / "workloads"
# Part of the digest: raised when the same workload file begins to mean other operations.
GENERATOR_VERSION: Final = 1
STREAMS_MAX: Final = 64
MEMBERS_MAX: Final = 100_000
SEGMENTS_MAX: Final = 100_000
BODY_BYTES_MAX: Final = 1_048_576
WAIT_SECONDS_MAX: Final = 20
VISIBILITY_SECONDS_MAX: Final = 43_200
DELAY_SECONDS_MAX: Final = 900
ATTRIBUTES: Final = (
    "ContentBasedDeduplication",
    "DelaySeconds",
    "MaximumMessageSize",
    "MessageRetentionPeriod",
    "ReceiveMessageWaitTimeSeconds",
    "VisibilityTimeout",
)
ARRIVALS: Final = ("constant", "poisson", "ramp", "curve", "bursts", "diurnal", "timestamps")


@dataclass(frozen=True, slots=True)
class Population:
    """Tenants of a stream, or message groups of a tenant, the k-th as frequent as k ** -skew."""

    count: int
    skew: float
    prefix: str


@dataclass(frozen=True, slots=True)
class Stream:
    """One source of operations for one queue."""

    name: str
    queue: Queue
    begin_us: int
    end_us: int
    segments: tuple[arrivals.Segment, ...]
    is_poisson: bool
    # A file of moments instead of a curve.
    timestamps: Path | None
    mix: dict[str, float]
    batch: tuple[int, int]
    sizes: Sizes
    tenants: Population | None
    groups: Population | None
    delay_share: float
    delay_seconds: tuple[int, int]
    duplicate_share: float

    @property
    def operations_expected(self) -> float:
        return sum(segment.area for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    seed: int
    duration_us: int
    digest: str
    queues: tuple[Queue, ...]
    streams: tuple[Stream, ...]

    @property
    def trace_id(self) -> str:
        return self.digest[:8]

    @property
    def has_recordings(self) -> bool:
        return any(stream.timestamps for stream in self.streams)


def find_workload(name: str) -> Path:
    """A path, or the name of a ready-made workload."""
    path = Path(name)
    if path.suffix == ".toml":
        return path
    ready = {file.stem: file for file in sorted(READY_MADE.glob("*.toml"))}
    if name not in ready:
        raise LoadError(f"no workload {name!r}{nearest(name, ready)}; or give a .toml file")
    return ready[name]


def load_workload(path: Path, seed: int | None = None) -> Workload:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LoadError(f"cannot read the workload {path}: {error.strerror}") from None
    except ValueError as error:
        raise LoadError(f"{path} is not valid TOML: {error}") from None
    return parse_workload(document, path.stem, path.parent, seed)


def parse_workload(
    document: dict[str, Any], name: str, folder: Path, seed: int | None = None
) -> Workload:
    fields = Fields(f"workload {name}", document)
    own_seed = fields.integer("seed", 1)
    duration_us = fields.duration_us("duration", None)
    if duration_us == 0:
        raise fields.error("duration", "must not be zero")
    queues = {key: _queue(key, table) for key, table in fields.tables("queues").items()}
    _check_dead_letters(queues)
    tables = fields.tables("streams")
    streams = tuple(_stream(key, tables[key], queues, duration_us, folder) for key in tables)
    fields.text("about", "")
    fields.end()
    if not 0 < len(streams) <= STREAMS_MAX:
        raise LoadError(f"workload {name}: needs from 1 to {STREAMS_MAX} streams")
    seed = own_seed if seed is None else seed
    return Workload(name, seed, duration_us, _digest(document, seed), (*queues.values(),), streams)


def _digest(document: dict[str, Any], seed: int) -> str:
    text = json.dumps([GENERATOR_VERSION, seed, document], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _queue(name: str, fields: Fields) -> Queue:
    is_fifo = fields.text("kind", "standard", ("standard", "fifo")) == "fifo"
    if "." in name:
        raise LoadError(f'{fields.place}: a name has no dot; kind = "fifo" adds .fifo by itself')
    partitions = fields.integer("partitions", 1, 1, 32)
    attributes = _attributes(fields)
    if partitions > 1:
        if not is_fifo or partitions & (partitions - 1):
            raise fields.error("partitions", 'must be a power of two, and kind = "fifo"')
        attributes |= {
            "FifoThroughputLimit": "perMessageGroupId",
            "DeduplicationScope": "messageGroup",
            "PartitionCount": str(partitions),
        }
    dead_letter = fields.any("dead_letter")
    max_receives = fields.integer("max_receives", 3, 1, 1000)
    consumers = fields.table("consumers")
    fields.end()
    return Queue(
        name + (".fifo" if is_fifo else ""),
        attributes | ({"FifoQueue": "true"} if is_fifo else {}),
        dead_letter,
        max_receives if dead_letter else None,
        _consumers(consumers) if consumers else None,
    )


def _attributes(fields: Fields) -> dict[str, str]:
    table = fields.table("attributes")
    if table is None:
        return {}
    known = {name: table.any(name) for name in ATTRIBUTES}
    table.end()
    given = {name: value for name, value in known.items() if value is not None}
    return {name: str(value).lower() for name, value in given.items()}


def _consumers(fields: Fields) -> Consumers:
    consumers = Consumers(
        fields.integer("count", 1, 1, 10_000),
        fields.integer("max_messages", 10, 1, 10),
        fields.seconds("wait", "1s", WAIT_SECONDS_MAX),
        fields.seconds("visibility", "30s", VISIBILITY_SECONDS_MAX),
        fields.duration_us("think", "0s") / 1000,
        fields.share("failures"),
        fields.share("extensions"),
        "batch" if fields.text("delete", "batch", ("batch", "single")) == "batch" else "single",
    )
    fields.end()
    return consumers


def _check_dead_letters(queues: dict[str, Queue]) -> None:
    by_full_name = {queue.name: queue for queue in queues.values()}
    for name, queue in queues.items():
        if queue.dead_letter is None:
            continue
        target = by_full_name.get(queue.dead_letter)
        if target is None:
            hint = nearest(str(queue.dead_letter), by_full_name)
            raise LoadError(f"queues.{name}: dead_letter is no queue of this file{hint}")
        if target.is_fifo is not queue.is_fifo:
            raise LoadError(f"queues.{name}: dead_letter must be of the same kind")


def _stream(
    name: str, fields: Fields, queues: dict[str, Queue], duration_us: int, folder: Path
) -> Stream:
    queue = queues[fields.text("queue", None, tuple(queues) or ("?",))]
    begin = fields.duration_us("start", "0s")
    end = fields.duration_us("end", f"{duration_us}us")
    if not begin < end <= duration_us:
        raise fields.error("start, end", "must be in order and within the duration")
    table = fields.table("arrivals")
    if table is None:
        raise fields.error("arrivals", 'is missing: for example {kind = "constant", rate = 100}')
    segments, is_poisson, timestamps = _arrivals(table, begin, end, folder)
    mix = _mix(fields)
    delay_share, delay_seconds = _delays(fields)
    stream = Stream(
        name=name,
        queue=queue,
        begin_us=begin,
        end_us=end,
        segments=segments,
        is_poisson=is_poisson,
        timestamps=timestamps,
        mix=mix,
        batch=fields.pair("batch", BATCH_MAX, 1, BATCH_MAX),
        sizes=_sizes(fields),
        tenants=_population(fields, "tenants", f"{name}-"),
        groups=_population(fields, "groups", "g"),
        delay_share=delay_share,
        delay_seconds=delay_seconds,
        duplicate_share=fields.share("duplicates"),
    )
    fields.end()
    _check_stream(fields, stream)
    return stream


def _check_stream(fields: Fields, stream: Stream) -> None:
    if stream.queue.is_fifo and stream.delay_share:
        raise fields.error("delay", "is not for FIFO queues: SQS has no delays of single messages")
    if not stream.queue.is_fifo and (stream.groups or stream.duplicate_share):
        raise fields.error("groups, duplicates", "are for FIFO queues only; tenants are for both")
    largest = stream.sizes.largest
    if "SendMessageBatch" in stream.mix and largest * stream.batch[1] > BODY_BYTES_MAX:
        raise fields.error("size", f"times batch can be more than {BODY_BYTES_MAX} bytes")


def _arrivals(
    fields: Fields, begin: int, end: int, folder: Path
) -> tuple[tuple[arrivals.Segment, ...], bool, Path | None]:
    kind = fields.text("kind", None, ARRIVALS)
    default = "poisson" if kind == "poisson" else "even"
    is_poisson = fields.text("spacing", default, ("even", "poisson")) == "poisson"
    segments: list[arrivals.Segment] = []
    timestamps = None
    if kind in ("constant", "poisson"):
        segments = arrivals.constant(begin, end, fields.number("rate", None))
    elif kind == "ramp":
        rates = fields.number("from", None), fields.number("to", None)
        segments = arrivals.ramp(begin, end, *rates)
    elif kind == "curve":
        segments = arrivals.curve(begin, end, _points(fields))
    elif kind == "bursts":
        segments = _bursts(fields, begin, end)
    elif kind == "diurnal":
        rates = fields.number("low", None), fields.number("high", None)
        period, peak = fields.duration_us("period", "24h"), fields.duration_us("peak", "14h")
        segments = arrivals.diurnal(begin, end, rates, max(period, 1), peak)
    else:
        timestamps = folder / fields.text("file", None)
    fields.end()
    if len(segments) > SEGMENTS_MAX:
        raise LoadError(f"{fields.place}: has more than {SEGMENTS_MAX} pieces")
    return tuple(segments), is_poisson, timestamps


def _bursts(fields: Fields, begin: int, end: int) -> list[arrivals.Segment]:
    rates = fields.number("rate", None), fields.number("rest", 0.0)
    lengths = fields.duration_us("on", None), fields.duration_us("off", None)
    if sum(lengths) * SEGMENTS_MAX < 2 * (end - begin) or 0 in lengths:
        raise fields.error("on, off", "are too short")
    return arrivals.bursts(begin, end, rates, lengths)


def _points(fields: Fields) -> list[tuple[int, float]]:
    raw = fields.any("points")
    pairs = [
        (parse_duration_us(point[0]), point[1])
        for point in (raw if isinstance(raw, list) else [])
        if isinstance(point, list) and len(point) == 2
    ]
    points = [
        (at, float(rate))
        for at, rate in pairs
        if at is not None and type(rate) in (int, float) and rate >= 0
    ]
    times = [at for at, _ in points]
    if not points or len(points) != len(raw) or times[0] != 0 or times != sorted(set(times)):
        raise fields.error("points", 'must be as [["0s", 10], ["5s", 80]], in order, from "0s"')
    return points


def _mix(fields: Fields) -> dict[str, float]:
    table = fields.table("mix")
    if table is None:
        return {"SendMessage": 1.0}
    weights = {action: table.number(action, 0.0) for action in TRACE_ACTIONS}
    table.end()
    mix = {action: weight for action, weight in weights.items() if weight > 0}
    if not mix:
        raise fields.error("mix", "has no operation")
    return mix


def _delays(fields: Fields) -> tuple[float, tuple[int, int]]:
    table = fields.table("delay")
    if table is None:
        return 0.0, (0, 0)
    share, seconds = table.share("share"), table.pair("seconds", 1, 0, DELAY_SECONDS_MAX)
    table.end()
    return share, seconds


def _sizes(fields: Fields) -> Sizes:
    if not fields.is_table("size"):
        return fixed_size(fields.integer("size", 256, 1, BODY_BYTES_MAX))
    table = fields.table("size")
    assert table is not None
    if table.text("kind", None, ("lognormal", "histogram")) == "lognormal":
        median = table.number("median", None, 1, BODY_BYTES_MAX)
        largest = table.integer("max", BODY_BYTES_MAX, 1, BODY_BYTES_MAX)
        sizes = lognormal_sizes(median, table.number("sigma", 1.0, 0, 5), largest)
    else:
        sizes = histogram_sizes(_buckets(table))
    table.end()
    return sizes


def _buckets(fields: Fields) -> list[tuple[int, float]]:
    raw = fields.any("buckets")
    rows = [row for row in raw if _is_bucket(row)] if isinstance(raw, list) else []
    highs = [row[0] for row in rows]
    if not rows or len(rows) != len(raw) or highs != sorted(set(highs)):
        raise fields.error("buckets", "must be as [[256, 0.7], [4096, 0.3]]: up to, weight; rising")
    return [(high, float(weight)) for high, weight in rows]


def _is_bucket(row: object) -> bool:
    return (
        isinstance(row, list)
        and len(row) == 2
        and type(row[0]) is int
        and 0 < row[0] <= BODY_BYTES_MAX
        and type(row[1]) in (int, float)
        and row[1] > 0
    )


def _population(fields: Fields, name: str, prefix: str) -> Population | None:
    table = fields.table(name)
    if table is None:
        return None
    population = Population(
        table.integer("count", 1, 1, MEMBERS_MAX),
        table.number("skew", 0.0, 0, 10),
        table.text("prefix", prefix),
    )
    table.end()
    return population
