"""The checks against histories with one planted fault of each kind, and against those without one.

By SQLite, so in no time; `test_verify.py` has the same checks find faults among a million rows.
"""

import pytest

from spark_load.checks import CHECKS
from tests.spark.calls import BEGAN_US, Calls, message, row
from tests.spark.judged import fifo, found, offences


def ordinary() -> Calls:
    """A message of each fate, all of them allowed."""
    calls = Calls().life("1", 0.0)
    # Unknown, and there: received again when its lease was over, deleted at the second try.
    calls.send_unknown("2", 1.0).receive(2.0, "2").receive(4.1, "2")
    calls.delete("2", 4.2, of=4.1, outcome="unknown").receive(6.5, "2").delete("2", 6.6, of=6.5)
    # Unknown, and nowhere.
    calls.send_unknown("3", 1.0)
    # Unknown and repeated: both are there.
    calls.send_unknown("4", 1.0).send("4", 1.5, message_id="other")
    calls.receive(2.5, "4").delete("4", 2.6, of=2.5)
    calls.receive(2.7, "4", message_id="other").delete("4", 2.8, of=2.7, message_id="other")
    # Held for longer than its first lease.
    calls.send("5", 3.0).receive(3.1, "5").extend("5", 4.0, of=3.1, to=9)
    calls.delete("5", 10.0, of=3.1)
    # Given back at once.
    calls.send("6", 3.0).receive(3.2, "6").extend("6", 3.3, of=3.2, to=0)
    return calls.receive(3.4, "6").delete("6", 3.5, of=3.4)


def in_order() -> Calls:
    calls = fifo().send_unknown("0", 0.0).send("0", 0.5, attempt=1).send("1", 1.0).send("2", 2.0)
    calls.receive(3.0, "0", "1").delete("0", 3.2, of=3.0)
    calls.receive(5.2, "1", "2").delete("1", 5.3, of=5.2).delete("2", 5.4, of=5.2)
    calls.send_unknown("3", 6.0).receive(7.0, "3").delete("3", 7.1, of=7.0)
    return (
        calls.send_batch(["4", "5"], 8.0)
        .receive(8.1, "4", "5")
        .delete("4", 8.2, of=8.1)
        .delete("5", 8.2, of=8.1)
    )


@pytest.mark.parametrize("calls", [ordinary(), in_order(), Calls()], ids=["plain", "fifo", "none"])
def test_a_possible_history_is_believed(calls: Calls) -> None:
    assert found(calls) == {}


def test_every_check_has_a_planted_fault() -> None:
    planted = {name for _, expected in FAULTS.values() for name in expected}
    elsewhere = {"counters", "dlq_balance"}
    assert planted | elsewhere == {check.name for check in CHECKS}


# What is added to the ordinary histories → which checks find how much.
FAULTS: dict[str, tuple[Calls, dict[str, int]]] = {
    "never delivered": (Calls().send("9", 20.0), {"lost": 1}),
    "delivered, not deleted, gone": (Calls().send("9", 20.0).receive(20.1, "9"), {"lost": 1}),
    "never sent": (Calls().receive(20.0, "9").delete("9", 20.1, of=20.0), {"phantom": 1}),
    "no key at all": (
        Calls(
            rows=[
                row("ReceiveMessage", "q", 20.0, messages=[message(None, message_id="x")]),
                row("DeleteMessage", "q", 20.1, messages=[message(None, message_id="x")]),
            ]
        ),
        {"phantom": 1},
    ),
    "back after its delete": (
        Calls().life("9", 20.0).receive(29.0, "9").delete("9", 29.1, of=29.0),
        {"resurrected": 1},
    ),
    "back at once": (
        Calls().life("9", 20.0).receive(20.4, "9").delete("9", 20.5, of=20.4),
        {"resurrected": 1},
    ),
    "in two hands": (
        Calls().send("9", 20.0).receive(20.1, "9").receive(21.0, "9").delete("9", 21.5, of=20.1),
        {"doubled_in_window": 1},
    ),
    "in two hands, both of which delete it at once": (
        Calls()
        .send("9", 20.0)
        .receive(20.1, "9")
        .receive(20.101, "9")
        .delete("9", 20.115, of=20.1)
        .delete("9", 20.115, of=20.101),
        {"doubled_in_window": 1},
    ),
    "asked for before its delete was answered, and given after it": (
        Calls()
        .send("9", 20.0)
        .receive(20.1, "9")
        .delete("9", 20.15, of=20.1, took=0.2)
        .receive(20.3, "9", took=0.5),
        {"doubled_in_window": 1},
    ),
    "in two hands within an extension": (
        Calls()
        .send("9", 20.0)
        .receive(20.1, "9")
        .extend("9", 21.0, of=20.1, to=9)
        .receive(25.0, "9")
        .delete("9", 25.5, of=25.0),
        {"doubled_in_window": 1},
    ),
    "twice in one answer": (
        Calls().send("9", 20.0).receive(20.1, "9", "9").delete("9", 20.5, of=20.1),
        {"doubled_in_window": 1},
    ),
    "another id than was told": (
        Calls()
        .send("9", 20.0)
        .receive(20.1, "9", message_id="x")
        .delete("9", 20.5, of=20.1, message_id="x"),
        {"wrong_id": 1},
    ),
    "one id for two messages": (
        Calls()
        .life("9", 20.0)
        .send("10", 21.0, message_id="m9")
        .receive(29.0, "10", message_id="m9")
        .delete("10", 29.1, of=29.0, message_id="m9"),
        {"wrong_id": 1},
    ),
    "skipped": (
        fifo()
        .send("8", 20.0)
        .send("9", 20.1)
        .receive(20.2, "9")
        .delete("9", 20.3, of=20.2)
        .receive(20.4, "8")
        .delete("8", 20.5, of=20.4),
        {"fifo_sequence": 1},
    ),
    "the next while the first is in flight": (
        fifo()
        .send("8", 20.0)
        .send("9", 20.1)
        .receive(20.2, "8")
        .receive(20.4, "9")
        .delete("8", 20.6, of=20.2)
        .delete("9", 20.6, of=20.4),
        {"fifo_sequence": 1},
    ),
    "turned round in one answer": (
        fifo()
        .send("8", 20.0)
        .send("9", 20.1)
        .receive(20.2, "9", "8")
        .delete("8", 20.6, of=20.2)
        .delete("9", 20.6, of=20.2),
        {"fifo_sequence": 1},
    ),
    "past one in the middle of an answer": (
        fifo()
        .send("7", 20.0)
        .send("8", 20.1)
        .send("9", 20.2)
        .receive(20.3, "7", "9")
        .delete("7", 20.4, of=20.3)
        .delete("9", 20.4, of=20.3)
        .receive(20.5, "8")
        .delete("8", 20.6, of=20.5),
        {"fifo_sequence": 1},
    ),
    "past one that was left to its lease": (
        fifo()
        .send("7", 20.0)
        .send("8", 20.1)
        .send("9", 20.2)
        .receive(20.3, "7", "8")
        .delete("8", 20.4, of=20.3)
        .receive(20.5, "9")
        .delete("9", 20.6, of=20.5)
        .receive(23.0, "7")
        .delete("7", 23.1, of=23.0),
        {"fifo_sequence": 1},
    ),
    "numbered against the order of sending": (
        fifo()
        .send("8", 20.0, sequence="300")
        .send("9", 20.1, sequence="200")
        .receive(20.2, "9", sequence="200")
        .delete("9", 20.3, of=20.2)
        .receive(20.4, "8", sequence="300")
        .delete("8", 20.5, of=20.4),
        {"fifo_sent_order": 1},
    ),
    "a batch numbered backwards": (
        fifo()
        .send_batch(["8", "9"], 20.0, sequence=["300", "200"])
        .receive(20.2, "9", sequence="200")
        .delete("9", 20.3, of=20.2)
        .receive(20.4, "8", sequence="300")
        .delete("8", 20.5, of=20.4),
        {"fifo_sent_order": 1},
    ),
    "sent again and accepted again": (
        fifo()
        .send("9", 20.0)
        .send("9", 21.0, message_id="x", sequence="110", attempt=1)
        .receive(22.0, "9")
        .delete("9", 22.1, of=22.0)
        .receive(22.2, "9", message_id="x", sequence="110")
        .delete("9", 22.3, of=22.2, message_id="x"),
        {"dedup": 1},
    ),
    "unknown and repeated, and both are there": (
        fifo()
        .send_unknown("8", 20.0)
        .send("8", 21.0, attempt=1)
        .receive(22.0, "8")
        .delete("8", 22.1, of=22.0)
        .receive(22.2, "8", message_id="x", sequence="110")
        .delete("8", 22.3, of=22.2, message_id="x"),
        {"dedup": 1},
    ),
    "another group": (
        fifo().send("9", 20.0).receive(20.1, "9", group="h").delete("9", 20.2, of=20.1),
        {"wrong_id": 1},
    ),
    "a receive over its budget": (
        Calls().receive(20.0, partitions=32, rows=400, choose_us=100_001),
        {"fanout_budget": 1},
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_and_nothing_else(name: str) -> None:
    calls, expected = FAULTS[name]
    assert offences(ordinary().rows + in_order().rows + calls.rows) == expected


@pytest.mark.parametrize(
    "calls",
    [
        # The lease was over when the delete was answered: it may have changed nothing.
        Calls().send("1", 0.0).receive(1.0, "1").delete("1", 3.5, of=1.0).receive(9.0, "1"),
        # It was answered so near to the end that the node may have thought otherwise.
        Calls()
        .send("1", 0.0)
        .receive(1.0, "1")
        .delete("1", 2.95, of=1.0)
        .receive(3.1, "1")
        .delete("1", 3.2, of=3.1),
        # The second receive was under way for so long that it may be the later one.
        Calls()
        .send("1", 0.0)
        .receive(1.0, "1")
        .receive(1.0001, "1", took=2.2)
        .delete("1", 3.3, of=1.0001),
        # The receive began before the delete was acknowledged.
        Calls()
        .send("1", 0.0)
        .receive(1.0, "1", visibility=9)
        .delete("1", 1.2, of=1.0)
        .receive(1.205, "1", took=10.0),
        # A receive that was repeated may have taken the message at its first attempt.
        Calls(rows=[row("ReceiveMessage", "q", 1.0, took=1.5, outcome="unknown", status=0)])
        .send("1", 0.0)
        .receive(2.5, "1", attempt=1, intended_us=BEGAN_US + 1_000_000)
        .receive(3.1, "1")
        .delete("1", 3.2, of=3.1),
        # Nobody knows whether the extension was in time, or happened at all.
        Calls()
        .send("1", 0.0)
        .receive(1.0, "1")
        .extend("1", 2.98, of=1.0, to=9)
        .receive(3.1, "1")
        .delete("1", 3.2, of=3.1),
        Calls()
        .send("1", 0.0)
        .receive(1.0, "1")
        .extend("1", 1.5, of=1.0, to=9, outcome="unknown")
        .receive(3.1, "1")
        .delete("1", 3.2, of=3.1),
        # The first may not exist.
        fifo().send_unknown("0", 0.0).send("1", 1.0).receive(2.0, "1").delete("1", 2.1, of=2.0),
        # Somebody had begun to delete the first.
        fifo()
        .send("0", 0.0)
        .send("1", 1.0)
        .receive(2.0, "0")
        .delete("0", 2.2, of=2.0, outcome="unknown")
        .receive(2.5, "1")
        .delete("1", 2.6, of=2.5),
        # Both sends were under way at once.
        fifo()
        .send("1", 0.0, took=1.0)
        .send("0", 0.5)
        .receive(2.0, "0", "1")
        .delete("0", 2.1, of=2.0)
        .delete("1", 2.1, of=2.0),
        # The first attempt may have been accepted before the other message was.
        fifo()
        .send_unknown("0", 0.0)
        .send("1", 0.5)
        .send("0", 1.0, attempt=1)
        .receive(2.0, "0", "1")
        .delete("0", 2.1, of=2.0)
        .delete("1", 2.1, of=2.0),
    ],
)
def test_what_may_have_been_is_not_complained_about(calls: Calls) -> None:
    assert found(calls) == {}
