"""Waiting for somebody who changes a message: whoever may not take it until then has no use for
being told that it is there.
"""

from collections.abc import Callable

from fastnode.errors import Overloaded
from fastnode.flow import Suspension, start
from fastnode.store.latches import Latches


def when_changed(latches: Latches, key: bytes, go_on: Callable[[], None]) -> bool:
    """`go_on` is called once the change of the key is through or has failed, or has taken too long;
    False if nobody changes it, or nobody else may wait: then it is not called.
    """
    if not latches.is_held(key):
        return False
    try:
        changed = latches.wait(key)
    except Overloaded:
        return False
    start(_wait(changed), lambda _result, _error: go_on())
    return True


async def _wait(changed: Suspension) -> None:
    await changed
