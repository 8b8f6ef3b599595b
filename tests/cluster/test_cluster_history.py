"""The judge of histories against histories with a planted fault of every kind, and without one."""

import pytest

from tests.cluster.history import Deleted, Drained, Event, Message, Received, Sent, check

QUEUE, LEASE = "q", 2.0
NOTHING = (0, 0, 0)


def sent(body: str, at: float, message_id: str = "", queue: str = QUEUE) -> Sent:
    return Sent(queue, body, at, at + 0.1, message_id)


def ordered(number: int, at: float, message_id: str = "", *, sequence: str = "") -> Sent:
    """In the group g; the body says the number."""
    is_known = bool(message_id)
    told = sequence or (str(100 + number) if is_known else "")
    return Sent(QUEUE, f"b{number}", at, at + 0.1, message_id, "g", number, told)


def received(at: float, *messages: tuple[str, str], lease: float = LEASE) -> Received:
    return Received(QUEUE, at, at + 0.1, lease, tuple(Message(*message) for message in messages))


def in_order(at: float, *numbers: int) -> Received:
    messages = tuple(Message(f"m{n}", f"b{n}", "g", str(100 + n)) for n in numbers)
    return Received(QUEUE, at, at + 0.1, LEASE, messages)


def deleted(message_id: str, at: float, *, of: float, is_acknowledged: bool = True) -> Deleted:
    return Deleted(QUEUE, message_id, of, LEASE, at, at + 0.1, is_acknowledged)


def drained(found: int, *, before: tuple[int, int, int] | None = None) -> Drained:
    return Drained(QUEUE, before or (found, 0, 0), found, NOTHING)


# A message of each fate, all of them allowed.
INNOCENT: list[Event] = [
    sent("a", 0.0, "m1"),
    received(1.0, ("m1", "a")),
    deleted("m1", 1.5, of=1.0),
    sent("unknown and there", 2.0),
    received(3.0, ("m2", "unknown and there")),
    received(5.1, ("m2", "unknown and there")),
    deleted("m2", 5.2, of=5.1, is_acknowledged=False),
    received(8.0, ("m2", "unknown and there")),
    deleted("m2", 8.1, of=8.0),
    sent("unknown and gone", 9.0),
    sent("twice", 9.0),
    sent("twice", 9.5, "m4"),
    received(10.0, ("m3", "twice"), ("m4", "twice")),
    deleted("m3", 10.1, of=10.0),
    deleted("m4", 10.1, of=10.0),
    drained(0),
]
INNOCENT_FIFO: list[Event] = [
    ordered(0, 0.0),
    ordered(0, 0.5, "m0"),
    ordered(1, 1.0, "m1"),
    ordered(2, 2.0, "m2"),
    in_order(3.0, 0, 1),
    deleted("m0", 3.2, of=3.0),
    in_order(5.2, 1, 2),
    deleted("m1", 5.3, of=5.2),
    deleted("m2", 5.4, of=5.2),
    ordered(3, 6.0),
    in_order(7.0, 3),
    deleted("m3", 7.1, of=7.0),
    drained(0),
]


@pytest.mark.parametrize("events", [INNOCENT, INNOCENT_FIFO, []])
def test_a_possible_history_is_believed(events: list[Event]) -> None:
    assert check(events) == []


FAULTS: dict[str, tuple[list[Event], str]] = {
    "lost": ([sent("a", 0.0, "m1"), drained(0)], "lost: a: acknowledged"),
    "resurrected": (
        [
            sent("a", 0.0, "m1"),
            received(1.0, ("m1", "a")),
            deleted("m1", 1.2, of=1.0),
            received(9.0, ("m1", "a")),
        ],
        "resurrected: a",
    ),
    "in two hands": (
        [sent("a", 0.0, "m1"), received(1.0, ("m1", "a")), received(2.0, ("m1", "a"))],
        "doubled_in_window: a",
    ),
    "twice in one answer": (
        [sent("a", 0.0, "m1"), received(1.0, ("m1", "a"), ("m1", "a"))],
        "doubled_in_window: a",
    ),
    "never sent": ([received(1.0, ("m1", "a"))], "phantom: a"),
    "sent once, there twice": (
        [sent("a", 0.0), received(1.0, ("m1", "a"), ("m2", "a"))],
        "wrong_id: a",
    ),
    "another id than was told": (
        [sent("a", 0.0, "m1"), received(1.0, ("m2", "a"))],
        "wrong_id: a",
    ),
    "counters before": (
        [drained(3, before=(4, 0, 0))],
        "counters (4, 0, 0) before 3 messages were found",
    ),
    "counters after": ([Drained(QUEUE, NOTHING, 0, (0, 1, 0))], "after everything was deleted"),
    "fifo: skipped": (
        [ordered(0, 0.0, "m0"), ordered(1, 1.0, "m1"), in_order(2.0, 1)],
        "fifo_sequence: b1",
    ),
    "fifo: the next while the first is in flight": (
        [
            ordered(0, 0.0, "m0"),
            ordered(1, 1.0, "m1"),
            in_order(2.0, 0),
            in_order(2.5, 1),
            deleted("m0", 3.0, of=2.0),
        ],
        "fifo_sequence: b1",
    ),
    "fifo: turned round": (
        [ordered(0, 0.0, "m0"), ordered(1, 1.0, "m1"), in_order(2.0, 1, 0)],
        "fifo_sequence: b0",
    ),
    "fifo: deduplication failed": (
        [ordered(0, 0.0, "m0"), ordered(0, 1.0, "m9", sequence="100")],
        "dedup: b0",
    ),
    "fifo: an unknown send landed beside its repeat": (
        [ordered(0, 0.0), ordered(0, 1.0, "m9"), in_order(2.0, 0)],
        "dedup: b0",
    ),
    "fifo: a second sequence number": (
        [ordered(0, 0.0, "m0"), ordered(0, 1.0, "m0", sequence="7")],
        "wrong_id: b0",
    ),
    "fifo: sequence numbers fall": (
        [ordered(0, 0.0, "m0"), ordered(1, 1.0, "m1", sequence="5")],
        "fifo_sent_order: b1",
    ),
    "fifo: another group": (
        [
            ordered(0, 0.0, "m0"),
            Received(QUEUE, 1.0, 1.1, LEASE, (Message("m0", "b0", "h", "100"),)),
        ],
        "wrong_id: b0",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    events, words = FAULTS[name]
    complaints = check(events)
    assert any(words in complaint for complaint in complaints), complaints


@pytest.mark.parametrize(
    "events",
    [
        # The lease was over when the delete was answered, so somebody else's may have begun.
        [
            sent("a", 0.0, "m1"),
            received(1.0, ("m1", "a")),
            deleted("m1", 3.5, of=1.0),
            received(9.0, ("m1", "a")),
        ],
        # The second receive was under way for so long that it may be the later one.
        [
            sent("a", 0.0, "m1"),
            received(1.0, ("m1", "a")),
            Received(QUEUE, 1.0, 3.2, LEASE, (Message("m1", "a"),)),
        ],
        # The receive began before the delete was acknowledged.
        [
            sent("a", 0.0, "m1"),
            received(1.0, ("m1", "a"), lease=9.0),
            deleted("m1", 1.2, of=1.0),
            Received(QUEUE, 1.25, 11.0, LEASE, (Message("m1", "a"),)),
        ],
        # The first may not exist.
        [ordered(0, 0.0), ordered(1, 1.0, "m1"), in_order(2.0, 1)],
        # Somebody had begun to delete the first.
        [
            ordered(0, 0.0, "m0"),
            ordered(1, 1.0, "m1"),
            in_order(2.0, 0),
            deleted("m0", 2.2, of=2.0, is_acknowledged=False),
            in_order(2.5, 1),
        ],
    ],
)
def test_what_may_have_been_is_not_complained_about(events: list[Event]) -> None:
    assert check(events) == []


def test_queues_are_judged_apart() -> None:
    events: list[Event] = [sent("a", 0.0, "m1", "one"), sent("a", 0.0, "m2", "two")]
    assert check(events) == []
    assert check([*events, Drained("two", NOTHING, 0, NOTHING)]) == [
        "two: lost: a: acknowledged and never delivered"
    ]
