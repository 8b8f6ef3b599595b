"""The checks about whole queues: deduplication ids, what is left at the end, dead letters."""

import pytest

from spark_load.facts import Limits
from spark_load.flat import family_of
from tests.spark.calls import Calls, ending, plain, row
from tests.spark.judged import fifo, offences


def test_a_repeated_deduplication_id_is_not_lost() -> None:
    """It is answered with the id of the first, which is the one that is delivered."""
    calls = fifo().life("8", 0.0).send("9", 1.0, message_id="m8", sequence="108")
    assert offences(calls, dedups={"8": "d", "9": "d"}) == {}
    elsewhere = Calls("f.fifo", "h", calls.rows).send("10", 1.5, message_id="m8", sequence="108")
    elsewhere.send("11", 2.0).receive(2.1, "11").delete("11", 2.2, of=2.1)
    assert offences(elsewhere, dedups={"8": "d", "9": "d", "10": "d"}) == {}


def test_a_repeated_deduplication_id_in_a_batch_keeps_its_first_number() -> None:
    calls = fifo().life("8", 0.0)
    calls.send_batch(["9", "10"], 1.0, message_id=["m9", "m8"], sequence=["109", "108"])
    calls.receive(1.1, "9").delete("9", 1.2, of=1.1)
    assert offences(calls, dedups={"8": "d", "10": "d"}) == {}


def test_a_deduplication_id_is_free_again_after_five_minutes() -> None:
    calls = fifo().life("8", 0.0).life("9", 299.0)
    assert offences(calls, dedups={"8": "d", "9": "d"}) == {"dedup": 1}
    calls = fifo().life("8", 0.0).life("9", 300.1)
    assert offences(calls, dedups={"8": "d", "9": "d"}) == {}


def test_deduplication_by_group_keeps_groups_apart() -> None:
    by_group = plain("f.fifo", attributes={"DeduplicationScope": "messageGroup"})
    calls = fifo().life("8", 0.0)
    Calls("f.fifo", "h", calls.rows).life("9", 1.0)
    dedups = {"8": "d", "9": "d"}
    assert offences(calls, by_group, dedups=dedups) == {}
    assert offences(calls, plain("f.fifo"), dedups=dedups) == {"dedup": 1}


def test_what_is_left_in_a_queue_that_nobody_reads_is_not_lost() -> None:
    calls, unread = Calls().send("1", 0.0).send("2", 0.1), plain(consumers=False)
    assert offences(calls, unread, end=ending(left={"q": 2})) == {}
    assert offences(calls, unread, end=ending(left={"q": 1})) == {"counters": 1}
    assert offences(calls, unread, end=ending(left={"q": 3})) == {"counters": 1}
    assert offences(calls, unread, end=ending(left={"q": 0})) == {"lost": 2}
    assert offences(calls, unread, end=ending()) == {}
    assert offences(calls, plain(), end=ending()) == {"lost": 2}


def test_unknown_sends_widen_what_counters_may_say() -> None:
    calls = Calls().life("1", 0.0).send_unknown("2", 1.0).send_unknown("2", 2.0, attempt=1)
    for count, expected in ((0, {}), (1, {}), (2, {}), (3, {"counters": 1})):
        assert offences(calls, plain(), end=ending(left={"q": count})) == expected
    ordered = fifo().send_unknown("2", 1.0).send_unknown("2", 2.0, attempt=1)
    for count, expected in ((0, {}), (1, {}), (2, {"counters": 1})):
        assert offences(ordered, plain("f.fifo"), end=ending(left={"f.fifo": count})) == expected


def test_a_history_cut_short_says_nothing_about_its_end() -> None:
    calls = Calls().send("1", 0.0)
    assert offences(calls, end=ending(is_complete=False, left={"q": 5})) == {}


def test_what_outlived_its_retention_is_not_lost() -> None:
    minute = plain(attributes={"MessageRetentionPeriod": "60"})
    calls = Calls().send("1", 0.0).send("2", 30.0)
    assert offences(calls, minute, end=ending(seconds=61, left={"q": 0})) == {"lost": 1}


def test_choosing_within_the_budget_is_fine() -> None:
    calls = Calls().receive(0.0, partitions=32, rows=1, choose_us=900)
    assert offences(calls) == {}
    assert offences(calls, limits=Limits(budget_us=899)) == {"fanout_budget": 1}


def test_clocks_that_may_disagree_accuse_nobody() -> None:
    """The delete was answered, and the lease about to end, when the message came again."""
    calls = Calls().send("1", 0.0).receive(0.2, "1").delete("1", 2.1, of=0.2)
    calls.receive(2.12, "1", took=0.04).delete("1", 2.2, of=2.12)
    assert offences(calls) == {"resurrected": 1}
    assert offences(calls, limits=Limits(clock_us=20_000)) == {}


def test_clocks_that_may_disagree_excuse_nothing_within_a_lease() -> None:
    calls = Calls().life("1", 0.0).receive(0.32, "1").delete("1", 0.4, of=0.32)
    assert offences(calls) == {"resurrected": 1}
    assert offences(calls, limits=Limits(clock_us=20_000)) == {"doubled_in_window": 1}


def test_clocks_that_may_disagree_order_no_group() -> None:
    calls = fifo().send("8", 0.0, sequence="300").send("9", 0.02, sequence="200")
    calls.receive(1.0, "9", sequence="200").delete("9", 1.02, of=1.0)
    calls.receive(1.03, "8", sequence="300").delete("8", 1.1, of=1.03)
    assert offences(calls) == {"fifo_sent_order": 1}
    assert offences(calls, limits=Limits(clock_us=20_000)) == {}
    early = fifo().send("8", 0.0).send("9", 0.1).receive(1.0, "8").receive(1.015, "9")
    early.delete("8", 1.03, of=1.0).delete("9", 1.04, of=1.015)
    assert offences(early) == {"fifo_sequence": 1}
    assert offences(early, limits=Limits(clock_us=20_000)) == {}


def test_what_is_lost_from_a_group_is_reported_once() -> None:
    """Everything behind it was delivered past it; while the queue may hold it that is the fault."""
    calls = fifo().send("7", 0.0).life("8", 1.0).life("9", 2.0)
    assert offences(calls) == {"lost": 1}
    assert offences(calls, end=ending(is_complete=False)) == {"fifo_sequence": 2}


def test_one_message_of_a_group_has_one_body() -> None:
    calls = fifo().life("8", 0.0).send("9", 1.0, message_id="m8", sequence="108")
    calls.receive(9.0, "9", message_id="m8", sequence="108")
    calls.delete("9", 9.1, of=9.0, message_id="m8")
    assert offences(calls, dedups={"8": "d", "9": "d"})["wrong_id"] == 1


def test_a_message_keeps_its_sequence_number() -> None:
    calls = fifo().send("9", 0.0).receive(0.1, "9", sequence="209").delete("9", 0.2, of=0.1)
    assert offences(calls) == {"wrong_id": 1}


# --- dead letters -----------------------------------------------------------------------------

DEAD = plain("dead")
SOURCE = plain("q", dead_letter="dead", max_receives=2)


def dying(receives: int, **first: object) -> Calls:
    """Received so many times and never deleted, then a dead letter."""
    calls = Calls().send("1", 0.0)
    for number in range(receives):
        calls.receive(1.0 + 3 * number, "1")
    Calls("dead", rows=calls.rows).receive(30.0, "1").delete("1", 30.1, of=30.0)
    return calls


@pytest.mark.parametrize(("receives", "expected"), [(2, {}), (1, 1), (0, 1), (3, 1)])
def test_a_dead_letter_was_received_as_often_as_allowed(receives: int, expected: object) -> None:
    judged = offences(dying(receives), SOURCE, DEAD)
    assert judged == ({"dlq_balance": 1} if expected else {})


def test_a_receive_without_an_answer_may_have_counted() -> None:
    calls = dying(1)
    calls.rows.append(row("ReceiveMessage", "q", 5.0, outcome="unknown", status=0))
    assert offences(calls, SOURCE, DEAD) == {}


def test_a_dead_letter_does_not_come_back_by_itself() -> None:
    calls = dying(1).receive(40.0, "1")
    assert offences(calls, SOURCE, DEAD)["dlq_balance"] == 1
    calls.rows.append(row("StartMessageMoveTask", "dead", 35.0, role="control"))
    assert "dlq_balance" not in offences(calls, SOURCE, DEAD)


def test_dead_letters_that_nobody_reads_are_counted() -> None:
    calls = Calls().send("1", 0.0).receive(1.0, "1").receive(4.0, "1")
    unread = plain("dead", consumers=False)
    assert offences(calls, SOURCE, unread, end=ending(left={"q": 0, "dead": 1})) == {}
    assert offences(calls, SOURCE, unread, end=ending(left={"q": 0, "dead": 0})) == {"lost": 1}
    assert offences(calls, SOURCE, unread, end=ending(left={"q": 1, "dead": 1})) == {"counters": 1}


def test_what_may_lie_in_an_unread_dead_letter_queue_is_not_lost() -> None:
    unread = plain("dead", consumers=False)
    assert offences(Calls().send("1", 0.0), SOURCE, unread, end=ending()) == {}
    assert offences(Calls().send("1", 0.0), SOURCE, DEAD, end=ending()) == {"lost": 1}


def test_another_queue_of_the_family_is_no_place_for_a_message() -> None:
    calls = Calls("dead").send("1", 0.0)
    Calls("q", rows=calls.rows).receive(1.0, "1").delete("1", 1.1, of=1.0)
    assert offences(calls, SOURCE, DEAD) == {"dlq_balance": 1}
    assert offences(calls, plain("q"), plain("dead"))["phantom"] == 1


@pytest.mark.parametrize(
    ("targets", "family"),
    [
        ({}, "a"),
        ({"a": "b", "b": None}, "b"),
        ({"a": "b", "b": "c"}, "c"),
        ({"a": "c", "c": "b", "b": "c"}, "b"),
        ({"a": "a"}, "a"),
    ],
)
def test_a_family_is_named_after_its_last_queue(
    targets: dict[str, str | None], family: str
) -> None:
    assert family_of("a", targets) == family
