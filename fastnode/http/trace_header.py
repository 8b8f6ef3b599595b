"""The request header that X-Ray reserves: what of it is refused, for any action. Sans-IO.

Only what is clearly no list of `key=value` pairs is refused; which keys there are and what their
values mean is the tracing system's business.
"""

import re
from collections.abc import Mapping
from typing import Final

from fastnode.queue.errors import invalid_parameter

TRACE_HEADER: Final = b"x-amzn-trace-id"
_PAIRS: Final = re.compile(rb"[\w.-]+=[!-:<-~]*(?:; *(?:[\w.-]+=[!-:<-~]*)?)*")


def check_trace_header(headers: Mapping[bytes, bytes]) -> None:
    value = headers.get(TRACE_HEADER)
    if value and not _PAIRS.fullmatch(value):
        raise invalid_parameter(
            "The request has a 'X-Amzn-Trace-Id' HTTP header which is reserved for AWS X-Ray trace "
            f"header and has an invalid value '{value.decode('latin-1')}'"
        )
