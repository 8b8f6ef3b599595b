"""Records kept for the receives to come, and messages that come back: it is always the same one."""

from tests.unit.queue.fifo_world import URL, FifoWorld


def test_a_message_that_comes_back_is_the_same() -> None:
    world = FifoWorld()
    world.put("g", "a", "b")
    assert world.got(timeout=1) == ["a", "b"]
    world.advance(1_001)
    assert world.got() == ["a", "b"]


def test_a_large_message_is_deleted_and_hidden_like_a_small_one() -> None:
    world = FifoWorld()
    world.put("g", "x" * 5_000, "small")
    large, small = world.get()
    world.change(URL, large.receipt_handle, 0)
    world.advance(1)
    (large,) = world.get()
    assert large.body == "x" * 5_000
    for message in (large, small):
        world.delete(URL, message.receipt_handle)
    assert world.counts(URL) == (0, 0, 0)
