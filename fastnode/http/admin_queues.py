"""The REST part of the admin listener that is about queues, `/api/v1/queues…`: to look at them and
their messages, and to change them. Paths and errors look as in `admin_request.py`.

A change is the SQS action of the same meaning, called by the queue's owner: the rules, their texts
and the way to the queue's leader are those of the API.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from fastnode.cluster.traffic import Traffic
from fastnode.config import (
    ADMIN_BODY_BYTES_MAX,
    DETAILS_PAGE_MAX,
    LIST_PAGE_MAX,
    MESSAGE_BYTES_MAX,
)
from fastnode.flow import gather
from fastnode.http.admin_overview import Rates, history_of, rates_of
from fastnode.http.admin_request import (
    Answer,
    Number,
    Refusal,
    bad_request,
    body_of,
    flag_of,
    method_of,
    not_found,
    number_of,
    parameters_of,
)
from fastnode.http.http1 import Request
from fastnode.http.identity import ACCOUNT_DEFAULT
from fastnode.option_values import parse_region
from fastnode.queue import api
from fastnode.queue.caller import Call, Caller
from fastnode.queue.dead_letter_chain import dead_letters_of
from fastnode.queue.operations import OPERATIONS
from fastnode.queue.overview import (
    MessageCounts,
    NameFilter,
    QueueDetails,
    QueueName,
    QueuePage,
    describe,
    list_all,
)
from fastnode.queue.peek import STATES, PeekRequest, peek
from fastnode.queue.predeclared import Handle
from fastnode.queue.queue_url import build_arn, build_url, is_account, is_fifo_name
from fastnode.queue.service import Service
from fastnode.queue.validate_queues import check_tags

# Account, region and name as they can be stored.
_QUEUE: Final = re.compile(
    r"queues/(?P<account>[0-9]{12})/(?P<region>[a-z0-9-]{1,32})"
    r"/(?P<name>[A-Za-z0-9_-]{1,80}|[A-Za-z0-9_-]{1,75}\.fifo)(?:/(?P<page>[a-z-]+))?"
)
_LIST: Final = Number(100, 1, LIST_PAGE_MAX)
_LIST_DETAILS: Final = Number(DETAILS_PAGE_MAX, 1, DETAILS_PAGE_MAX)
_LIMIT: Final = Number(20, 1, 100)
_BODY_BYTES: Final = Number(4_096, 256, MESSAGE_BYTES_MAX)
_PEEK_PARAMETERS: Final = ("state", "limit", "body_max_bytes", "cursor", "contains", "details")
_TASKS_SHOWN: Final = 10
_RUNNING: Final = "RUNNING"

Queue = tuple[str, str, str]
Page = Callable[[Queue, Request], Answer]


class Look:
    """At a queue, wherever its messages are."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def described(self, queue: Queue) -> Answer:
        return describe(self._service, *queue)

    def peeked(self, queue: Queue, request: PeekRequest) -> Answer:
        return peek(self._service, *queue, request)


# --- bodies -------------------------------------------------------------------------------------


class _NewQueue(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    account: str = ACCOUNT_DEFAULT
    region: str = ""
    attributes: dict[str, str] = {}
    tags: dict[str, str] = {}


class _Attributes(Struct, frozen=True, forbid_unknown_fields=True):
    attributes: dict[str, str]


class _Tags(Struct, frozen=True, forbid_unknown_fields=True):
    tags: dict[str, str]


class _Confirmed(Struct, frozen=True, forbid_unknown_fields=True):
    confirm: str = ""


class _NewMessage(Struct, frozen=True, forbid_unknown_fields=True):
    body: str
    delay_seconds: int | None = None
    group_id: str | None = None
    deduplication_id: str | None = None
    attributes: dict[str, str] = {}


class _Redrive(Struct, frozen=True, forbid_unknown_fields=True):
    destination: str | None = None
    max_per_second: int | None = None


class _Listed(Struct, frozen=True):
    account: str
    region: str
    name: str
    fifo: bool
    created_ms: int
    messages: MessageCounts
    rates: Rates
    tags: dict[str, str]


class _ListedPage(Struct, frozen=True, omit_defaults=True):
    queues: list[_Listed]
    cursor: str | None = None


class AdminQueues:
    """`answer` is what an `AdminApi` calls. `region` is that of queues that are created without."""

    def __init__(
        self, service: Service, look: Look, handle: Handle, traffic: Traffic, region: str
    ) -> None:
        self._service = service
        self._look = look
        self._handle = handle
        self._traffic = traffic
        self._region = region
        self._pages: dict[str | None, dict[str, Page]] = {
            None: {"GET": self._describe, "PATCH": self._set_attributes, "DELETE": self._delete},
            "messages": {"GET": self._peek, "POST": self._send},
            "tags": {"PUT": self._set_tags},
            "purge": {"POST": self._purge},
            "redrive": {
                "GET": self._tasks,
                "POST": self._start_redrive,
                "DELETE": self._stop_redrive,
            },
            "dead-letters": {"GET": self._dead_letters},
            "history": {"GET": self._history},
        }

    def answer(self, request: Request, path: str) -> Answer:
        if path == "queues":
            is_creating = method_of(request, "GET, HEAD, POST") == "POST"
            return self._create(request) if is_creating else self._list(request)
        match = _QUEUE.fullmatch(path)
        if match is None:
            raise _refused_path(path)
        pages = self._pages.get(match["page"])
        if pages is None:
            raise not_found()
        allowed = ", ".join(pages).replace("GET", "GET, HEAD")
        page = pages[method_of(request, allowed)]
        return page((match["account"], match["region"], match["name"]), request)

    # --- looking -------------------------------------------------------------------------------

    def _list(self, request: Request) -> Answer:
        given = parameters_of(request, "prefix", "contains", "limit", "cursor", "details")
        details = flag_of(given, "details")
        wanted = NameFilter(given.get("prefix", ""), given.get("contains", ""))
        limit = number_of(given, "limit", _LIST_DETAILS if details else _LIST)
        page = list_all(self._service, wanted, limit, given.get("cursor", ""))
        return self._with_details(page) if details else page

    async def _with_details(self, listing: Answer) -> _ListedPage:
        page: QueuePage = await listing
        latest = (await self._traffic.of_all()).latest
        every = await gather(self._listed(name, latest) for name in page.queues)
        return _ListedPage([one for one in every if one is not None], page.cursor)

    async def _listed(self, name: QueueName, latest: Any) -> _Listed | None:
        """None if it has just been deleted."""
        queue = name.account, name.region, name.name
        found = await self._look.described(queue)
        if found is None:
            return None
        if isinstance(found, Raw):
            found = msgspec.json.decode(found, type=QueueDetails)
        return _Listed(
            *queue,
            is_fifo_name(name.name),
            found.created_ms,
            found.messages,
            rates_of(latest.get(queue)),
            dict(found.tags),
        )

    def _describe(self, queue: Queue, request: Request) -> Answer:
        parameters_of(request)
        return self._look.described(queue)

    def _peek(self, queue: Queue, request: Request) -> Answer:
        given = parameters_of(request, *_PEEK_PARAMETERS)
        state = given.get("state", STATES[0])
        if state not in STATES:
            raise bad_request(f"state is one of {', '.join(STATES)}")
        wanted = PeekRequest(
            state,
            number_of(given, "limit", _LIMIT),
            number_of(given, "body_max_bytes", _BODY_BYTES),
            given.get("cursor", ""),
            given.get("contains", ""),
            flag_of(given, "details"),
        )
        return self._look.peeked(queue, wanted)

    def _dead_letters(self, queue: Queue, request: Request) -> Answer:
        parameters_of(request)
        return dead_letters_of(self._service, *queue)

    async def _history(self, queue: Queue, request: Request) -> Any:
        parameters_of(request)
        if await self._look.described(queue) is None:
            return None
        return history_of(await self._traffic.of_queue(queue))

    # --- changing ------------------------------------------------------------------------------

    async def _create(self, request: Request) -> Any:
        parameters_of(request)
        body = body_of(request, _NewQueue, ADMIN_BODY_BYTES_MAX)
        queue = body.account, body.region or self._region, body.name
        _check_place(*queue[:2])
        creating = api.CreateQueueRequest(
            queue_name=body.name, attributes=body.attributes, tags=body.tags
        )
        if _QUEUE.fullmatch("queues/" + "/".join(queue)) and await self._look.described(queue):
            raise Refusal(409, "queue_exists", "there is a queue of this name already")
        await self._act("CreateQueue", queue, creating)
        return await self._look.described(queue)

    async def _set_attributes(self, queue: Queue, request: Request) -> Any:
        parameters_of(request)
        changes = body_of(request, _Attributes, ADMIN_BODY_BYTES_MAX).attributes
        setting = api.SetQueueAttributesRequest(queue_url=_url(queue), attributes=changes)
        await self._act("SetQueueAttributes", queue, setting)
        return await self._look.described(queue)

    async def _set_tags(self, queue: Queue, request: Request) -> Any:
        """All of them: what is not named goes. Checked before anything is changed."""
        parameters_of(request)
        wanted = body_of(request, _Tags, ADMIN_BODY_BYTES_MAX).tags
        check_tags(queue[2], wanted)
        url = _url(queue)
        found = await self._act("ListQueueTags", queue, api.ListQueueTagsRequest(url))
        gone = sorted(found.tags.keys() - wanted.keys())
        if gone:
            await self._act("UntagQueue", queue, api.UntagQueueRequest(url, gone))
        if wanted:
            await self._act("TagQueue", queue, api.TagQueueRequest(url, wanted))
        return {"tags": wanted}

    async def _purge(self, queue: Queue, request: Request) -> Any:
        parameters_of(request)
        _check_confirmed(queue, body_of(request, _Confirmed, ADMIN_BODY_BYTES_MAX).confirm)
        await self._act("PurgeQueue", queue, api.PurgeQueueRequest(_url(queue)))
        return {}

    async def _delete(self, queue: Queue, request: Request) -> Any:
        _check_confirmed(queue, parameters_of(request, "confirm").get("confirm", ""))
        if await self._look.described(queue) is None:
            return None
        await self._act("DeleteQueue", queue, api.DeleteQueueRequest(_url(queue)))
        return {}

    async def _send(self, queue: Queue, request: Request) -> Any:
        parameters_of(request)
        body = body_of(request, _NewMessage, ADMIN_BODY_BYTES_MAX)
        attributes = {
            name: api.MessageAttributeValue(data_type="String", string_value=value)
            for name, value in body.attributes.items()
        }
        message = api.SendMessageRequest(
            queue_url=_url(queue),
            message_body=body.body,
            delay_seconds=body.delay_seconds,
            message_attributes=attributes or None,
            message_group_id=body.group_id,
            message_deduplication_id=body.deduplication_id,
        )
        return {"message_id": (await self._act("SendMessage", queue, message)).message_id}

    async def _tasks(self, queue: Queue, request: Request) -> Any:
        parameters_of(request)
        tasks = await self._move_tasks(queue)
        return {"tasks": [_shown_task(task) for task in tasks]}

    async def _start_redrive(self, queue: Queue, request: Request) -> Any:
        parameters_of(request)
        body = body_of(request, _Redrive, ADMIN_BODY_BYTES_MAX)
        starting = api.StartMessageMoveTaskRequest(
            _arn(queue), body.destination, body.max_per_second
        )
        await self._act("StartMessageMoveTask", queue, starting)
        return {"tasks": [_shown_task(task) for task in await self._move_tasks(queue)]}

    async def _stop_redrive(self, queue: Queue, request: Request) -> Any:
        parameters_of(request)
        running = [task for task in await self._move_tasks(queue) if task.status == _RUNNING]
        if not running:
            raise Refusal(409, "refused", "no messages of this queue are being moved")
        stopping = api.CancelMessageMoveTaskRequest(running[0].task_handle)
        await self._act("CancelMessageMoveTask", queue, stopping)
        return {"tasks": [_shown_task(task) for task in await self._move_tasks(queue)]}

    async def _move_tasks(self, queue: Queue) -> list[api.ListMessageMoveTasksResultEntry]:
        listing = api.ListMessageMoveTasksRequest(_arn(queue), _TASKS_SHOWN)
        found: api.ListMessageMoveTasksResponse = await self._act(
            "ListMessageMoveTasks", queue, listing
        )
        return found.results

    def _act(self, action: str, queue: Queue, request: Struct) -> Answer:
        """As the queue's owner."""
        account, region, _ = queue
        call = Call(Caller(account, region, "", account), action, "")
        return self._handle(OPERATIONS[action], call, request)


def _refused_path(path: str) -> Refusal:
    segments = path.split("/")
    if len(segments) == 4 or segments[4:] == ["messages"]:
        return bad_request("a queue is queues/{12 digits}/{region}/{name}")
    return not_found()


def _check_place(account: str, region: str) -> None:
    if not is_account(account):
        raise bad_request("account is 12 digits")
    try:
        parse_region(region)
    except ValueError as error:
        raise bad_request(f"region {error}") from None


def _check_confirmed(queue: Queue, confirm: str) -> None:
    if confirm != queue[2]:
        raise Refusal(400, "not_confirmed", "confirm is the name of the queue, to show it is meant")


def _url(queue: Queue) -> str:
    account, _, name = queue
    return build_url("", account, name)


def _arn(queue: Queue) -> str:
    account, region, name = queue
    return build_arn(region, account, name)


def _shown_task(task: api.ListMessageMoveTasksResultEntry) -> dict[str, object]:
    return {
        "status": task.status,
        "destination_arn": task.destination_arn,
        "max_per_second": task.max_number_of_messages_per_second,
        "moved": task.approximate_number_of_messages_moved,
        "to_move": task.approximate_number_of_messages_to_move,
        "failure_reason": task.failure_reason,
        "started_ms": task.started_timestamp,
    }
