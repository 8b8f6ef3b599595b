"""Between the two ways of waiting: coroutines of `flow`, which know no event loop, and tasks."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastnode.flow import Suspension, start

T = TypeVar("T")


def as_future(coroutine: Coroutine[Suspension, Any, T]) -> "asyncio.Future[T]":
    """Run a coroutine of `flow` now; await its end as a task."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def finish(result: Any, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    start(coroutine, finish)
    return future
