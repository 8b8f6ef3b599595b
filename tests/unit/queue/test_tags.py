"""Section 2.3: TagQueue, UntagQueue, ListQueueTags."""

from typing import Any

import pytest

from fastnode.queue import api
from fastnode.queue.errors import SqsError
from tests.world import World

IPV, MP = "InvalidParameterValueException", "MissingRequiredParameterException"
KEY_LENGTH = "Tag keys must be between 1 and 128 characters in length."


@pytest.fixture
def world() -> World:
    created = World()
    created.create("q")
    return created


def tag(world: World, **tags: str) -> None:
    world.call("TagQueue", api.TagQueueRequest("q", tags))


def untag(world: World, *keys: str) -> None:
    world.call("UntagQueue", api.UntagQueueRequest("q", list(keys)))


def tags_of(world: World, name: str = "q") -> dict[str, str]:
    shown: dict[str, str] = world.call("ListQueueTags", api.ListQueueTagsRequest(name)).tags
    return shown


def refusal(world: World, action: str, request: Any) -> tuple[str, str]:
    with pytest.raises(SqsError) as caught:
        world.call(action, request)
    return caught.value.row.shape, caught.value.message


def test_tags_merge_overwrite_and_differ_by_case(world: World) -> None:
    assert tags_of(world) == {}
    tag(world, team="a", empty="")
    tag(world, team="b", Team="c")
    assert tags_of(world) == {"team": "b", "empty": "", "Team": "c"}


def test_the_lower_case_member_means_the_same(world: World) -> None:
    world.call("TagQueue", api.TagQueueRequest("q", tags_lowercase={"a": "b"}))
    assert tags_of(world) == {"a": "b"}


def test_untag_ignores_unknown_keys(world: World) -> None:
    tag(world, a="1", b="2")
    untag(world, "a", "absent")
    assert tags_of(world) == {"b": "2"}


def test_tags_of_a_create_are_kept_and_outlive_a_restart(world: World) -> None:
    world.call("CreateQueue", api.CreateQueueRequest("new", tags={"a": "1"}))
    world.call("TagQueue", api.TagQueueRequest("new", {"b": "2"}))
    world.crash()
    assert tags_of(world, "new") == {"a": "1", "b": "2"}
    world.call("DeleteQueue", api.DeleteQueueRequest("new"))
    world.call("CreateQueue", api.CreateQueueRequest("new"))
    assert tags_of(world, "new") == {}


def test_tags_are_no_modification_and_stay_out_of_its_way(world: World) -> None:
    names = ["CreatedTimestamp", "LastModifiedTimestamp", "DelaySeconds"]
    request = api.GetQueueAttributesRequest("q", names)
    before = world.call("GetQueueAttributes", request).attributes
    world.advance(5_000)
    tag(world, a="1")
    assert world.call("GetQueueAttributes", request).attributes == before
    world.call("SetQueueAttributes", api.SetQueueAttributesRequest("q", {"DelaySeconds": "3"}))
    assert tags_of(world) == {"a": "1"}


def test_two_calls_at_once_lose_no_tag(world: World) -> None:
    calls = [world.begin("TagQueue", api.TagQueueRequest("q", {key: key})) for key in "abc"]
    world.commit()
    assert [call.error for call in calls] == [None] * 3
    assert tags_of(world) == {"a": "a", "b": "b", "c": "c"}


FULL = {f"k{number}": "v" for number in range(50)}
REFUSALS = [
    ("TagQueue", api.TagQueueRequest("q", {}), MP, "The request must contain the parameter Tags."),
    ("TagQueue", api.TagQueueRequest("q"), MP, "The request must contain the parameter Tags."),
    ("TagQueue", api.TagQueueRequest("q", FULL), IPV, "Too many tags added for queue q."),
    ("TagQueue", api.TagQueueRequest("q", {"": "v"}), IPV, KEY_LENGTH),
    ("TagQueue", api.TagQueueRequest("q", {"k" * 129: "v"}), IPV, KEY_LENGTH),
    ("TagQueue", api.TagQueueRequest("q", {"k": "v" * 257}), IPV,
     "Tag values must be between 0 and 256 characters in length."),
    ("TagQueue", api.TagQueueRequest("q", {"AWS:x": "v"}), IPV,
     "Tag keys that start with aws: are reserved for system use."),
    ("UntagQueue", api.UntagQueueRequest("q", []), IPV, KEY_LENGTH),
    ("UntagQueue", api.UntagQueueRequest("q"), IPV, KEY_LENGTH),
    ("UntagQueue", api.UntagQueueRequest("q", ["here", "k" * 129]), IPV, KEY_LENGTH),
    ("TagQueue", api.TagQueueRequest("absent"), "QueueDoesNotExist",
     "The specified queue does not exist."),
    ("ListQueueTags", api.ListQueueTagsRequest("absent"), "QueueDoesNotExist",
     "The specified queue does not exist."),
]  # fmt: skip


@pytest.mark.parametrize(("action", "request_", "shape", "text"), REFUSALS)
def test_refusals_change_nothing(
    world: World, action: str, request_: Any, shape: str, text: str
) -> None:
    tag(world, here="x")
    assert refusal(world, action, request_) == (shape, text)
    assert tags_of(world) == {"here": "x"}


def test_fifty_tags_of_the_longest_kind_fit(world: World) -> None:
    longest = {f"{number:02}" + "k" * 126: "v" * 256 for number in range(50)}
    tag(world, **longest)
    assert tags_of(world) == longest
    assert refusal(world, "TagQueue", api.TagQueueRequest("q", {"one": "more"}))[0] == IPV
    tag(world, **dict.fromkeys(longest, "changed"))
    assert set(tags_of(world).values()) == {"changed"}
