"""CreateQueue asks before a queue gets partitions: real handlers on a real store, and a gate whose
members cannot be reached by any socket. Members that answer are in the integration tests.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NoReturn

import pytest

from fastnode.cluster.capabilities import HTFIFO, Advertised, Member, Report
from fastnode.cluster.gate import PUBLIC_TEXT, PartitionGate
from fastnode.cluster.partition_map import parse_partition_map
from fastnode.cluster.poller import poll
from fastnode.errors import Unavailable
from fastnode.queue.api import CreateQueueRequest, DeleteQueueRequest
from fastnode.queue.errors import SqsError
from tests.world import Pending, World

NAME = "orders.fifo"
FIFO = {"FifoQueue": "true"}
FAST = FIFO | {
    "DeduplicationScope": "messageGroup",
    "FifoThroughputLimit": "perMessageGroupId",
    "PartitionCount": "4",
}
LOG = logging.getLogger("fastnode.test")
Ask = Callable[[], Coroutine[Any, Any, Report]]


class Setup:
    """A world behind a gate; what the gate asked, and whom."""

    def __init__(
        self,
        *,
        capabilities: Sequence[str] = ("htfifo",),
        members: Sequence[str] = (),
        ask: Ask | None = None,
        spec: str = "",
        advertised: Advertised | None = None,
    ) -> None:
        self.world = World(groups=2)
        ask = ask or (lambda: poll(members, HTFIFO))
        placement = parse_partition_map(spec, 2)
        self.gate = PartitionGate(capabilities, placement, ask, LOG, lambda: advertised or {})
        self.world.service.placement = placement.groups_of
        self.asked: list[tuple[str, int]] = []
        self.world.service.partition_gate = self._admit

    async def _admit(self, name: str, count: int) -> None:
        self.asked.append((name, count))
        await self.gate.admit(name, count)

    def begin(self, **attributes: str) -> Pending:
        return self.world.begin("CreateQueue", CreateQueueRequest(NAME, attributes))

    async def create(self, **attributes: str) -> str:
        return await self.finished(self.begin(**attributes))

    async def finished(self, pending: Pending) -> str:
        async with asyncio.timeout(60):
            while not pending.is_done:
                await asyncio.sleep(0)
                self.world.commit()
        if pending.error is not None:
            raise pending.error
        url: str = pending.result.queue_url
        return url


async def refused(setup: Setup, **attributes: str) -> None:
    with pytest.raises(SqsError) as caught:
        await setup.create(**attributes)
    assert caught.value.row.query_code == "InvalidAttributeValue"
    assert caught.value.row.status == 400
    assert caught.value.message == PUBLIC_TEXT
    assert setup.world.service.find("000000000000", "us-east-1", NAME) is None


def never() -> NoReturn:
    raise AssertionError("nobody is to be asked")


def reason(caplog: pytest.LogCaptureFixture) -> str:
    (record,) = caplog.records
    assert record.getMessage() == "a partitioned queue is refused"
    assert (vars(record)["queue"], vars(record)["partitions"]) == (NAME, 4)
    return str(vars(record)["reason"])


@pytest.mark.parametrize("attributes", [{}, FIFO, FAST | {"PartitionCount": "1"}])
def test_a_queue_of_one_partition_asks_nobody(attributes: dict[str, str]) -> None:
    setup = Setup(capabilities=(), members=[""])
    name = NAME if "FifoQueue" in attributes else "orders"
    request = CreateQueueRequest(name, attributes)
    assert setup.world.call("CreateQueue", request).queue_url.endswith(name)
    assert setup.asked == []


def test_a_service_without_a_cluster_asks_nobody() -> None:
    request = CreateQueueRequest(NAME, FAST)
    assert World().call("CreateQueue", request).queue_url.endswith(NAME)


def test_the_default_number_of_partitions_is_asked_for_too() -> None:
    setup = Setup()
    attributes = {name: value for name, value in FAST.items() if name != "PartitionCount"}
    asyncio.run(setup.create(**attributes))
    assert setup.asked == [(NAME, 8)]


def test_no_member_to_ask_is_no_objection() -> None:
    setup = Setup()
    assert asyncio.run(setup.create(**FAST)).endswith(NAME)
    assert setup.asked == [(NAME, 4)]


def test_a_node_without_the_capability_asks_nobody_and_refuses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asyncio.run(refused(Setup(capabilities=("other",), ask=never), **FAST))
    assert reason(caplog) == "this node runs without htfifo"


def test_what_a_member_said_on_its_link_counts_whoever_answers_at_its_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said: Advertised = {2: ("dedup", "htfifo"), 3: ("dedup",), 5: ()}
    asyncio.run(refused(Setup(advertised=said, ask=never), **FAST))
    assert reason(caplog) == "node 3 does not advertise htfifo; node 5 does not advertise htfifo"


def test_members_without_a_link_are_left_to_the_poll() -> None:
    said: Advertised = {2: ("htfifo",), 3: None}
    assert asyncio.run(Setup(advertised=said).create(**FAST)).endswith(NAME)


def test_a_map_with_too_few_places_refuses(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(refused(Setup(spec="orders.fifo:2=0,1"), **FAST))
    assert reason(caplog) == "the partition map has fewer groups for the queue"


@pytest.mark.parametrize("spec", ["orders.fifo:4=1,1,0,1", "orders.fifo:8=1,1,0,1,0,0,0,0"])
def test_a_map_with_enough_places_admits_and_is_recorded(spec: str) -> None:
    setup = Setup(spec=spec)
    assert asyncio.run(setup.create(**FAST)).endswith(NAME)
    queue = setup.world.service.find("000000000000", "us-east-1", NAME)
    assert queue is not None
    assert queue.record.partition_groups == (1, 1, 0, 1)


def test_a_map_of_other_queues_leaves_this_one_to_the_spread() -> None:
    assert asyncio.run(Setup(spec="other.fifo:2=0,1").create(**FAST)).endswith(NAME)


def test_a_member_that_cannot_be_asked_refuses_and_only_the_log_names_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asyncio.run(refused(Setup(members=["", "ftp://secret-host:1"]), **FAST))
    assert reason(caplog) == (
        "(no address): ValueError: the address is empty; "
        "ftp://secret-host:1: ValueError: "
        "the address is neither HOST:PORT nor an http or https URL"
    )
    assert "secret" not in PUBLIC_TEXT


def test_an_identical_repetition_asks_nobody() -> None:
    async def scenario() -> None:
        setup = Setup()
        url = await setup.create(**FAST)
        setup.gate = Setup(capabilities=()).gate
        assert await setup.create(**FAST) == url
        assert setup.asked == [(NAME, 4)]

    asyncio.run(scenario())


def test_a_queue_that_appears_while_members_are_asked_is_found() -> None:
    """Both are admitted, and the one that comes second must not create it again."""

    async def scenario() -> None:
        setup = Setup()
        calls = [setup.begin(**FAST), setup.begin(**FAST)]
        urls = [await setup.finished(call) for call in calls]
        queue = setup.world.service.find("000000000000", "us-east-1", NAME)
        assert queue is not None
        assert (urls[0], queue.generation) == (urls[1], 1)
        assert len(setup.asked) == 2

    asyncio.run(scenario())


def test_a_queue_that_is_being_deleted_does_not_open_the_gate() -> None:
    async def scenario() -> None:
        setup = Setup()
        url = await setup.create(**FAST)
        deleting = setup.world.begin("DeleteQueue", DeleteQueueRequest(url))
        queue = setup.world.service.find("000000000000", "us-east-1", NAME)
        assert queue is not None
        while not queue.group.latches.is_held(queue.keys.meta):
            assert setup.world.step()
        setup.gate = Setup(capabilities=()).gate
        await refused(setup, **FAST)
        assert deleting.is_done

    asyncio.run(scenario())


class Polls:
    """Polls that end when the test says so."""

    def __init__(self) -> None:
        self.count = 0
        self.answer: asyncio.Future[Report] = asyncio.get_running_loop().create_future()

    async def ask(self) -> Report:
        self.count += 1
        return await asyncio.shield(self.answer)


def test_calls_that_come_together_share_one_poll() -> None:
    async def scenario() -> None:
        polls = Polls()
        setup = Setup(ask=polls.ask)
        calls = [setup.begin(**FAST) for _ in range(20)]
        await asyncio.sleep(0)
        assert polls.count == 1
        polls.answer.set_result(Report((Member("node-1:1"),)))
        (url,) = {await setup.finished(call) for call in calls}
        setup.world.call("DeleteQueue", DeleteQueueRequest(url))
        polls.answer = asyncio.get_running_loop().create_future()
        polls.answer.set_result(Report((Member("node-1:1", "status 500"),)))
        await refused(setup, **FAST)
        assert polls.count == 2

    asyncio.run(scenario())


def test_a_poll_that_ends_with_the_node_makes_the_call_unavailable() -> None:
    async def scenario() -> None:
        setup = Setup(ask=Polls().ask)
        call = setup.begin(**FAST)
        await asyncio.sleep(0)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        with pytest.raises(Unavailable):
            await setup.finished(call)

    asyncio.run(scenario())


def test_a_bug_in_the_poll_reaches_the_call() -> None:
    async def scenario() -> None:
        polls = Polls()
        setup = Setup(ask=polls.ask)
        call = setup.begin(**FAST)
        polls.answer.set_exception(KeyError("bug"))
        with pytest.raises(KeyError):
            await setup.finished(call)

    asyncio.run(scenario())
