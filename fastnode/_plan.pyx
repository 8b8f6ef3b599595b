# cython: language_level=3
"""Planning a send in C: `_plan_ref.py` is the readable version and owns the types.

The parts come from `_core` and `_keys`; what is saved here is the interpreter between them.
"""

from libc.stdint cimport uint64_t

from _hashlib import openssl_md5 as _md5

from fastnode import _plan_ref as _ref
from fastnode._core import encode_message as _encode_message
from fastnode._core import encode_transaction as _encode_transaction
from fastnode._core import message_id as _message_id
from fastnode._core import message_id_text as _message_id_text
from fastnode._core_ref import ADD as _ADD_KIND
from fastnode._core_ref import FRESH_PUT as _FRESH_PUT_KIND
from fastnode._keys import message_key as _message_key

cdef object _PlannedSend = _ref.PlannedSend
cdef object _ADD = _ADD_KIND
cdef object _FRESH_PUT = _FRESH_PUT_KIND
cdef object _new = tuple.__new__
# The delta of a counter by the number of messages; a transaction creates at most sixteen.
cdef list _DELTAS = [count.to_bytes(8, "big", signed=True) for count in range(17)]


def plan_sends(
    bytes request not None,
    uint64_t start_ts,
    uint64_t commit_ts,
    bytes generation_key not None,
    bytes total_key not None,
    bytes data_prefix not None,
    str sender not None,
    messages not None,
):
    cdef list planned = []
    cdef list writes = []
    cdef int entry = 0
    cdef bytes extras, body, identity, digest, record
    cdef object position = (<object>commit_ts) << 16
    for extras, body in messages:
        identity = _message_id(commit_ts, entry, request)
        digest = _md5(body).digest()
        record = _encode_message(0, identity, commit_ts >> 16, digest, sender, extras, body)
        writes.append((_FRESH_PUT, _message_key(data_prefix, commit_ts, entry), record))
        planned.append(
            _new(
                _PlannedSend,
                (_message_id_text(identity), digest.hex(), position + entry, record),
            )
        )
        entry += 1
    writes.append((_ADD, total_key, _DELTAS[entry]))
    cdef bytes encoded = _encode_transaction(
        request, start_ts, commit_ts, 0, (1 << entry) - 1, (generation_key,), writes
    )
    return encoded, planned
