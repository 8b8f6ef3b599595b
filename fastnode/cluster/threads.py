"""File work off the event loop, so that it can be waited for and never left behind. Shell."""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Executor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(pool: Executor, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """To its end even when cancelled: a thread cannot be stopped, and nobody else may touch its
    files meanwhile.
    """
    loop = asyncio.get_running_loop()
    running = loop.run_in_executor(pool, lambda: work(*args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # looked at, so that asyncio does not complain of it
        raise
