"""How a call that was carried out for another node ended, as its answer says it."""

import logging
from typing import Final

from fastnode.cluster.call_codec import encode_error
from fastnode.errors import OperationError
from fastnode.queue.errors import SqsError, internal_failure

log: Final = logging.getLogger("fastnode.cluster")


def encode_failure(error: BaseException, what: str) -> tuple[int, bytes]:
    """A bug is told here with everything about it, and to the client by its name alone."""
    if isinstance(error, SqsError | OperationError):
        return encode_error(error)
    log.error("bug in %s for another node", what, exc_info=error)
    return encode_error(internal_failure())
