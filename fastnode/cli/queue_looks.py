"""`fastnode queue ls|show|peek|watch`: nothing here changes a queue."""

import argparse
import heapq
import json
import sys
import time
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

from fastnode.cli.node_client import ask_admin
from fastnode.cli.queues import Depth, Queues, depth_of, name_of
from fastnode.cli.target import Target
from fastnode.cli.terminal import CLEAR_SCREEN, Progress, as_json, printable, table
from fastnode.clock import SystemClock
from fastnode.errors import UsageError

_PREVIEW_BYTES: Final = 256
_FULL_BYTES: Final = 262_144
_PEEK_PAGE: Final = 100
_WATCHED_MAX: Final = 30
_MS: Final = 1_000_000
_DEPTH_HEAD: Final = ("QUEUE", "VISIBLE", "IN FLIGHT", "DELAYED")


# --- ls and show ----------------------------------------------------------------------------------


def ls(queues: Queues, given: argparse.Namespace) -> str:
    urls = list(queues.urls(given.prefix))
    if given.names:
        names = [name_of(url) for url in urls]
        return as_json(names) if given.json else "".join(f"{name}\n" for name in names)
    depths = _depths(queues, urls)
    if given.json:
        return as_json(
            [depth._asdict() | {"url": url} for depth, url in zip(depths, urls, strict=True)]
        )
    if not urls:
        return "no queues\n"
    return table(_DEPTH_HEAD, [_depth_row(depth) for depth in depths])


def _depths(queues: Queues, urls: Sequence[str]) -> list[Depth]:
    progress, depths = Progress("queues"), []
    for number, url in enumerate(urls):
        if number % 100 == 99:
            progress.show(number, len(urls))
        depths.append(queues.depth(url))
    progress.end()
    return depths


def _depth_row(depth: Depth) -> tuple[str, ...]:
    return depth.name, f"{depth.visible:,}", f"{depth.in_flight:,}", f"{depth.delayed:,}"


def show(queues: Queues, given: argparse.Namespace) -> str:
    url = queues.url(given.queue)
    attributes = queues.attributes(url)
    tags = queues.client.call("ListQueueTags", QueueUrl=url).get("Tags", {})
    sources = queues.client.call("ListDeadLetterSourceQueues", QueueUrl=url).get("queueUrls", [])
    if given.json:
        shown = {"name": name_of(url), "url": url, "attributes": attributes, "tags": tags}
        return as_json(shown | {"dead_letter_sources": [name_of(source) for source in sources]})
    depth = depth_of(name_of(url), attributes)
    rows = [(name, value) for name, value in sorted(attributes.items())]
    rows += [(f"tag {name}", value) for name, value in sorted(tags.items())]
    rows += [("dead letters of", name_of(source)) for source in sources]
    head = f"{depth.name}  {url}\n{_in_words(depth)}\n\n"
    return head + table(("ATTRIBUTE", "VALUE"), rows)


def _in_words(depth: Depth) -> str:
    return f"{depth.visible:,} visible, {depth.in_flight:,} in flight, {depth.delayed:,} delayed"


# --- peek -----------------------------------------------------------------------------------------


def peek(queues: Queues, given: argparse.Namespace) -> str:
    if not 1 <= given.limit <= 10_000:
        raise UsageError("--limit must be from 1 to 10000")
    arn = queues.arn(given.queue).split(":")
    messages = _peeked(
        queues.client.target, f"/api/v1/queues/{arn[4]}/{arn[3]}/{arn[5]}/messages", given
    )
    if given.json:
        return as_json(messages)
    if not messages:
        return f"no {given.state.replace('_', ' ')} messages\n"
    now_ms = SystemClock().wall_ns() // _MS
    if given.full:
        return "".join(map(_whole, messages))
    rows = [_message_row(message, now_ms) for message in messages]
    return table(("MESSAGE", "AGE", "RECEIVED", "BYTES", "GROUP", "BODY"), rows)


def _peeked(target: Target, path: str, given: argparse.Namespace) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    size = _FULL_BYTES if given.full or given.json else _PREVIEW_BYTES
    wanted: dict[str, object] = {"state": given.state, "body_max_bytes": size}
    while len(messages) < given.limit:
        wanted["limit"] = min(given.limit - len(messages), _PEEK_PAGE)
        page = ask_admin((target.admin, target.ca), "GET", f"{path}?{urlencode(wanted)}")
        messages += page["messages"]
        if not page.get("cursor"):
            break
        wanted["cursor"] = page["cursor"]
    return messages


def _message_row(message: dict[str, Any], now_ms: int) -> tuple[str, ...]:
    body = printable(_text(message))
    return (
        message["message_id"],
        _age(now_ms - message["sent_ms"]),
        str(message["receive_count"]),
        f"{message['body_bytes']:,}",
        message.get("message_group_id", "-"),
        body if len(body) <= 60 else body[:59] + "…",
    )


def _whole(message: dict[str, Any]) -> str:
    lines = "\n".join(map(printable, _text(message).split("\n")))
    return f"--- {message['message_id']}\n{lines}\n"


def _text(message: dict[str, Any]) -> str:
    return str(message["body"]) + (" …" if message["body_truncated"] else "")


def _age(milliseconds: int) -> str:
    seconds = max(milliseconds, 0) // 1_000
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


# --- watch ----------------------------------------------------------------------------------------


def watch(queues: Queues, given: argparse.Namespace) -> str:
    """Until interrupted, or so many times."""
    if given.interval < 1:
        raise UsageError("--interval must be at least 1 second")
    named = [queues.url(name) for name in given.queue]
    before: dict[str, int] = {}
    looks = 0
    try:
        while True:
            depths = _watched(queues, named)
            sys.stdout.write(_look(depths, before, given))
            sys.stdout.flush()
            before = {depth.name: depth.total for depth in depths}
            looks += 1
            if looks == given.count:
                return ""
            time.sleep(given.interval)
    except KeyboardInterrupt:
        return ""


def _watched(queues: Queues, named: Sequence[str]) -> list[Depth]:
    depths = [queues.depth(url) for url in named or queues.urls()]
    return depths if named else heapq.nlargest(_WATCHED_MAX, depths, key=lambda one: one.total)


def _look(depths: Sequence[Depth], before: dict[str, int], given: argparse.Namespace) -> str:
    changes = [_change(depth, before, given.interval) for depth in depths]
    if given.json:
        now_ms = SystemClock().wall_ns() // _MS
        rows = [
            depth._asdict() | {"change_per_second": change}
            for depth, change in zip(depths, changes, strict=True)
        ]
        return json.dumps({"time_ms": now_ms, "queues": rows}) + "\n"
    shown = ["-" if change is None else f"{change:+.1f}" for change in changes]
    rows_shown = [(*_depth_row(depth), one) for depth, one in zip(depths, shown, strict=True)]
    page = table((*_DEPTH_HEAD, "CHANGE/S"), rows_shown) if depths else "no queues\n"
    return CLEAR_SCREEN + page if sys.stdout.isatty() else page + "\n"


def _change(depth: Depth, before: dict[str, int], seconds: int) -> float | None:
    return (depth.total - before[depth.name]) / seconds if depth.name in before else None
