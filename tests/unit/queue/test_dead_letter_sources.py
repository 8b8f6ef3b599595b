"""Sections 2.4, 8.1 and 8.3: which queue may be another's dead-letter queue, and whose it is."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastnode.queue import api
from fastnode.queue.dead_letter_sources import has_sources
from fastnode.queue.errors import SqsError
from fastnode.store.keyspace import sources_prefix
from tests.world import ACCOUNT, ENDPOINT, REGION, World

IPV = "InvalidParameterValueException"
OTHER_ACCOUNT = "123456789012"
OWNER = "Dead-letter target owner should be same as the source."
NO_SUCH_TARGET = "Dead letter target does not exist."
NOT_ALLOWED = "The redrive allow policy of the dead-letter queue does not permit this source."


def arn(name: str, *, account: str = ACCOUNT, region: str = REGION) -> str:
    return f"arn:aws:sqs:{region}:{account}:{name}"


def redrive(target_arn: str, count: int = 3) -> dict[str, str]:
    members = {"deadLetterTargetArn": target_arn, "maxReceiveCount": count}
    return {"RedrivePolicy": json.dumps(members)}


def allow(permission: str, *sources: str) -> dict[str, str]:
    members: dict[str, object] = {"redrivePermission": permission}
    if sources:
        members["sourceQueueArns"] = sources
    return {"RedriveAllowPolicy": json.dumps(members)}


def url(name: str) -> str:
    return f"{ENDPOINT}/{ACCOUNT}/{name}"


def change(world: World, name: str, attributes: dict[str, str]) -> None:
    world.call("SetQueueAttributes", api.SetQueueAttributesRequest(url(name), attributes))


def delete(world: World, name: str) -> None:
    world.call("DeleteQueue", api.DeleteQueueRequest(url(name)))


def page(
    world: World, name: str, limit: int | None = None, token: str | None = None
) -> tuple[list[str], str | None]:
    request = api.ListDeadLetterSourceQueuesRequest(url(name), limit, token)
    response = world.call("ListDeadLetterSourceQueues", request)
    return response.queue_urls, response.next_token


def sources(world: World, name: str) -> list[str]:
    urls, token = page(world, name)
    assert token is None
    assert all(each.startswith(f"{ENDPOINT}/{ACCOUNT}/") for each in urls)
    queue = world.service.find(ACCOUNT, REGION, name)
    assert queue is not None and has_sources(world.service, queue) is bool(urls)
    return [each.rpartition("/")[2] for each in urls]


def reason_of(refusal: pytest.ExceptionInfo[SqsError]) -> str:
    assert refusal.value.row.shape == IPV
    return refusal.value.message.partition(" Reason: ")[2]


# --- 8.1: what may be a target -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "allowed", "reason"),
    [
        (arn("nowhere"), {}, NO_SUCH_TARGET),
        (arn("dead", account=OTHER_ACCOUNT), {}, OWNER),
        (arn("dead", region="eu-west-1"), {}, NO_SUCH_TARGET),
        (arn("dead"), allow("denyAll"), NOT_ALLOWED),
        (arn("dead"), allow("byQueue", arn("other")), NOT_ALLOWED),
        (arn("dead"), allow("byQueue", arn("other"), arn("q")), None),
        (arn("dead"), allow("allowAll"), None),
        (arn("dead"), {}, None),
    ],
)
def test_target_is_checked_by_create_and_by_set(
    target: str, allowed: dict[str, str], reason: str | None
) -> None:
    world = World(groups=3)
    world.create("dead", **allowed)
    world.call("CreateQueue", api.CreateQueueRequest("dead"), account=OTHER_ACCOUNT)
    policy = redrive(target)
    if reason is None:
        world.create("q", **policy)
        change(world, "q", policy)
        assert sources(world, "dead") == ["q"]
        return
    with pytest.raises(SqsError) as refusal:
        world.create("q", **policy)
    assert reason_of(refusal) == reason
    world.create("q")
    with pytest.raises(SqsError) as refusal:
        change(world, "q", policy | {"DelaySeconds": "5"})
    text = policy["RedrivePolicy"]
    assert refusal.value.message == (
        f"Value {text} for parameter RedrivePolicy is invalid. Reason: {reason}"
    )
    request = api.GetQueueAttributesRequest(url("q"), ["RedrivePolicy", "DelaySeconds"])
    assert world.call("GetQueueAttributes", request).attributes == {"DelaySeconds": "0"}
    assert sources(world, "dead") == []


def test_queue_may_be_its_own_target() -> None:
    world = World()
    world.create("q", **redrive(arn("q")))
    change(world, "q", redrive(arn("q"), 5))
    assert sources(world, "q") == ["q"]
    with pytest.raises(SqsError) as refusal:
        change(world, "q", redrive(arn("q")) | allow("denyAll"))
    assert reason_of(refusal) == NOT_ALLOWED


def test_policy_is_shown_in_normal_form() -> None:
    world = World()
    world.create("dead")
    world.create("q", **redrive(arn("dead")))
    request = api.GetQueueAttributesRequest(url("q"), ["RedrivePolicy"])
    shown = f'{{"deadLetterTargetArn":"{arn("dead")}","maxReceiveCount":3}}'
    assert world.call("GetQueueAttributes", request).attributes == {"RedrivePolicy": shown}


def test_repeated_create_compares_and_does_not_look_at_the_target() -> None:
    world = World()
    world.create("dead")
    world.create("q", **redrive(arn("dead")))
    delete(world, "dead")
    assert world.create("q", **redrive(arn("dead"))) == url("q")
    with pytest.raises(SqsError) as refusal:
        world.create("q", **redrive(arn("dead"), 4))
    assert refusal.value.row.shape == "QueueNameExists"


def test_other_attributes_may_be_set_after_the_target_is_gone() -> None:
    world = World()
    world.create("dead")
    world.create("q", **redrive(arn("dead")))
    change(world, "dead", allow("denyAll"))
    change(world, "q", {"DelaySeconds": "1"})
    assert sources(world, "dead") == ["q"]
    delete(world, "dead")
    change(world, "q", {"DelaySeconds": "2"})


# --- 8.3: the index ------------------------------------------------------------------------------


def test_index_follows_create_set_and_delete() -> None:
    world = World(groups=4)
    for name in ("dead", "dead2"):
        world.create(name)
    for name in ("a", "b", "c"):
        world.create(name, **redrive(arn("dead")))
    assert sources(world, "dead") == ["a", "b", "c"]
    change(world, "b", redrive(arn("dead2")))
    assert (sources(world, "dead"), sources(world, "dead2")) == (["a", "c"], ["b"])
    change(world, "a", {"RedrivePolicy": ""})
    change(world, "b", redrive(arn("dead2"), 9))
    delete(world, "c")
    assert (sources(world, "dead"), sources(world, "dead2")) == ([], ["b"])
    world.crash()
    assert (sources(world, "dead"), sources(world, "dead2")) == ([], ["b"])
    delete(world, "b")
    rows = [e.scan_keys(sources_prefix(b""), b"!sqs|queue|dlsourcf", 10) for e in world.engines]
    assert not any(rows)


def test_purge_and_other_attributes_leave_the_index() -> None:
    world = World()
    world.create("dead")
    world.create("q", **redrive(arn("dead")))
    change(world, "q", {"VisibilityTimeout": "1"})
    world.call("PurgeQueue", api.PurgeQueueRequest(url("q")))
    assert sources(world, "dead") == ["q"]


def test_target_that_is_created_again_has_its_sources_again() -> None:
    world = World()
    world.create("dead")
    world.create("q", **redrive(arn("dead")))
    delete(world, "dead")
    world.create("dead")
    assert sources(world, "dead") == ["q"]


def test_names_that_begin_alike_are_told_apart() -> None:
    world = World(groups=2)
    for name in ("d", "dd", "d-"):
        world.create(name)
        world.create(f"of-{name}", **redrive(arn(name)))
    for name in ("d", "dd", "d-"):
        assert sources(world, name) == [f"of-{name}"]


def test_accounts_do_not_see_each_other() -> None:
    world = World()
    world.create("dead")
    foreign = redrive(arn("dead", account=OTHER_ACCOUNT))
    for request in (api.CreateQueueRequest("dead"), api.CreateQueueRequest("q", foreign)):
        world.call("CreateQueue", request, account=OTHER_ACCOUNT)
    assert sources(world, "dead") == []


NAMES = st.sets(st.from_regex(r"[a-c]{1,3}", fullmatch=True), max_size=12)


@settings(deadline=None, max_examples=30)
@given(NAMES, st.integers(1, 5))
def test_pages_give_every_source_once_and_in_order(names: set[str], limit: int) -> None:
    world = World(groups=3)
    world.create("dead")
    for name in sorted(names):
        world.create(name, **redrive(arn("dead")))
    found, token = page(world, "dead", limit)
    for _ in names:
        if token is not None:
            assert len(found) % limit == 0
            urls, token = page(world, "dead", limit, token)
            found += urls
    assert token is None
    assert found == [url(name) for name in sorted(names)]


def test_token_survives_the_deletion_of_the_source_that_it_names() -> None:
    world = World(groups=2)
    world.create("dead")
    for name in ("a", "b", "c", "d"):
        world.create(name, **redrive(arn("dead")))
    urls, token = page(world, "dead", 2)
    assert urls == [url("a"), url("b")]
    delete(world, "b")
    change(world, "c", {"RedrivePolicy": ""})
    assert page(world, "dead", 2, token) == ([url("d")], None)


# Section 2.4: paging as ListQueues.
@pytest.mark.parametrize(
    ("limit", "token", "text"),
    [
        (0, None, "Value for parameter MaxResults is invalid. Reason: MaxResults must be an "
         "integer between 1 and 1000."),
        (1_001, None, "Value for parameter MaxResults is invalid. Reason: MaxResults must be an "
         "integer between 1 and 1000."),
        (5, "nonsense", "Invalid or expired next token."),
    ],
)  # fmt: skip
def test_bad_page_is_refused(limit: int, token: str | None, text: str) -> None:
    world = World()
    world.create("dead")
    with pytest.raises(SqsError) as refusal:
        page(world, "dead", limit, token)
    assert (refusal.value.row.shape, refusal.value.message) == (IPV, text)


def test_unknown_queue_beats_a_bad_page() -> None:
    with pytest.raises(SqsError) as refusal:
        page(World(), "dead", 0)
    assert refusal.value.row.shape == "QueueDoesNotExist"


def test_page_costs_what_it_shows_and_not_what_there_is() -> None:
    world = World(groups=2)
    world.create("dead")
    for number in range(60):
        world.create(f"q{number:03}", **redrive(arn("dead")))
    asked: list[int] = []
    for group in world.groups:
        scan = group.scan_keys

        def counted(start: bytes, end: bytes, limit: int, scan: object = scan) -> list[bytes]:
            keys: list[bytes] = scan(start, end, limit)  # type: ignore[operator] # the group's own
            asked.append(len(keys))
            return keys

        group.scan_keys = counted
    urls, token = page(world, "dead", 3)
    assert (len(urls), token is None) == (3, False)
    assert sum(asked) <= 2 * 4
