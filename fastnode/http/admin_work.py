"""Work of the admin API that takes a while: handlers know suspensions only, what a node does for an
operator are tasks. Shell: it starts them, waits, and gives up in time.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from fastnode.cluster.control_api import Refused
from fastnode.errors import OperationError, Unavailable
from fastnode.flow import Suspension
from fastnode.http.admin_request import Refusal
from fastnode.http.codec import retry_after

# The connection itself gives up at 30 s, and then cannot say why.
ANSWER_SECONDS: Final = 25.0

Work = Coroutine[Any, Any, Any]


async def awaited(work: Work) -> Any:
    """Handlers know suspensions only; what a cluster does are tasks."""
    waiting = Suspension()
    task = asyncio.get_running_loop().create_task(_limited(work))
    task.add_done_callback(lambda ended: _settle(waiting, ended))
    return await waiting


async def _limited(work: Work) -> Any:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await work
    except Refused as error:
        raise Refusal(409, "refused", str(error)) from error
    except OperationError as error:
        later = retry_after(error.retry_after_seconds)
        raise Refusal(503, "unavailable", str(error) or "try again", later) from error
    except TimeoutError as error:
        raise Refusal(
            503, "unavailable", "not done in time; it may still take effect", retry_after(1)
        ) from error


def _settle(waiting: Suspension, ended: asyncio.Task[Any]) -> None:
    if ended.cancelled():
        waiting.fail(Unavailable("the node stops"))
    elif (error := ended.exception()) is not None:
        waiting.fail(error)
    else:
        waiting.resume(ended.result())
