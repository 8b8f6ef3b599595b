"""What the parts of the pipeline agree on: the columns and headers of traces and histories.

Data only, without Spark, pyarrow or files, so that everything else may import it: `tables.py` turns
columns into the types of Spark and pyarrow, `headers.py` reads and writes the headers.
"""

from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

VERSION: Final = 1
TRACE_HEADER: Final = "trace.json"
HISTORY_HEADER: Final = "history.json"
OPERATIONS: Final = "operations"
CALLS: Final = "calls"

Scalar = Literal["string", "int", "long"]
Outcome = Literal["ok", "refused", "unknown", "unsent"]
Role = Literal["producer", "consumer", "control"]

# What an operation of a trace may be. Receives and deletes are the consumers' and follow from what
# the cluster delivers, so no trace can say them.
SEND_ACTIONS: Final = ("SendMessage", "SendMessageBatch")
LOOK_ACTIONS: Final = ("GetQueueAttributes", "GetQueueUrl", "ListQueueTags", "ListQueues")
TRACE_ACTIONS: Final = SEND_ACTIONS + LOOK_ACTIONS
BATCH_MAX: Final = 10


class Column(NamedTuple):
    """A column; `type` is a scalar's name or, for a list of structs, the structs' columns."""

    name: str
    type: "Scalar | tuple[Column, ...]"
    is_nullable: bool = False


# One row per operation, sorted by time within a file.
OPERATION_COLUMNS: Final = (
    Column("op", "long"),  # dense from 0 in the order of time
    Column("at_us", "long"),  # from the start of the trace
    Column("queue", "string"),
    Column("action", "string"),
    Column("tenant", "string", is_nullable=True),
    Column("group", "string", is_nullable=True),
    Column("lane_key", "string"),  # operations with the same key stay in one lane, in order
    Column(
        "messages",
        (
            Column("key", "string"),  # see message_key
            Column("size", "int"),  # bytes of the body, never less than the key has
            Column("delay", "int", is_nullable=True),  # s
            Column("dedup", "string", is_nullable=True),
        ),
    ),
)

# One row per attempt of a call. Times are µs since the epoch on one agreed clock.
CALL_COLUMNS: Final = (
    Column("call", "string"),  # the same for all attempts of a call
    Column("attempt", "int"),  # from 0
    Column("lane", "int"),
    Column("role", "string"),
    Column("op", "long", is_nullable=True),
    Column("action", "string"),
    Column("queue", "string"),
    Column("endpoint", "string"),
    Column("intended_us", "long"),  # when it was due: latency counts from here
    Column("started_us", "long"),
    Column("ended_us", "long"),
    Column("outcome", "string"),
    Column("status", "int"),
    Column("error", "string", is_nullable=True),
    Column("visibility", "int", is_nullable=True),  # the lease that the call asked for, s
    # What the X-Fastnode-Receive header says of a receive.
    Column("partitions", "int", is_nullable=True),
    Column("rows", "int", is_nullable=True),
    Column("choose_us", "long", is_nullable=True),
    Column("remote", "int", is_nullable=True),
    Column(
        "messages",
        (
            Column("key", "string", is_nullable=True),
            Column("message_id", "string", is_nullable=True),
            Column("receipt", "string", is_nullable=True),  # 16 hex digits of its hash
            Column("sequence", "string", is_nullable=True),
            Column("group", "string", is_nullable=True),
            Column("receives", "int", is_nullable=True),
            Column("outcome", "string"),
        ),
    ),
)


def message_key(trace_id: str, op: int, index: int) -> str:
    """A body is its key, a space and filler: what is delivered is known by its first word."""
    return f"{trace_id}-{op}-{index}"


@dataclass(frozen=True, slots=True)
class Consumers:
    """How the consumers of one queue behave."""

    count: int = 1
    max_messages: int = 10
    wait_seconds: int = 1
    visibility_seconds: int = 30
    think_ms: float = 0.0  # between a receive and what becomes of its messages
    failure_share: float = 0.0  # of the messages received: not deleted, so they come again
    extend_share: float = 0.0  # of the messages received: their visibility is extended once
    delete: Literal["batch", "single"] = "batch"


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue that the replay creates. A FIFO queue's name ends with `.fifo`, as SQS has it."""

    name: str
    attributes: dict[str, str] = field(default_factory=dict)
    # The replay makes a RedrivePolicy of these: only the cluster knows the ARN.
    dead_letter: str | None = None
    max_receives: int | None = None
    consumers: Consumers | None = None

    @property
    def is_fifo(self) -> bool:
        return self.name.endswith(".fifo")


@dataclass(frozen=True, slots=True)
class TraceHeader:
    trace_id: str  # 8 hex digits
    workload: str
    digest: str  # of all that the operations follow from
    seed: int
    operations: int
    messages: int
    duration_us: int
    queues: tuple[Queue, ...]
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class FaultMark:
    at_us: int
    label: str


@dataclass(frozen=True, slots=True)
class HistoryHeader:
    trace_id: str
    began_us: int
    ended_us: int
    endpoints: tuple[str, ...]
    is_complete: bool
    speed: float = 1.0
    # Queue → attribute (ApproximateNumberOfMessages…) → its value at the end.
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    # Lane → what its host's clock was ahead of the agreed one, µs.
    clock_offsets_us: dict[str, int] = field(default_factory=dict)
    faults: tuple[FaultMark, ...] = ()
    version: int = VERSION
