"""Any bytes where a record, a key, an entry or a receipt handle is expected: what the state holds,
what the log carries, what a client gives back. The first byte picks the decoder.

It is refused with ValueError, or it means one thing: the compiled decoder and its twin agree, and
what can be written again is the same bytes.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from fastnode import _core, _core_ref, _entry, _entry_ref, _keys, _keys_ref
from fastnode.cluster.member_records import decode_record
from fastnode.queue.message_attributes import decode_extras, encode_extras
from fastnode.queue.move_record import decode_task, encode_task
from fastnode.store.records import decode_generation, decode_queue, encode_queue

SECRET: Final = b"sixteen byte key"
Decode = Callable[[Any], Any]


def _same(compiled: Decode, twin: Decode, given: bytes | str) -> Any:
    ours, theirs = _outcome(compiled, given), _outcome(twin, given)
    assert ours == theirs, (ours, theirs)
    return ours


def _outcome(decode: Decode, given: bytes | str) -> Any:
    """None for what is refused."""
    try:
        return decode(given)
    except ValueError:
        return None


def _message(data: bytes) -> None:
    record = _same(_core.decode_message, _core_ref.decode_message, data)
    if record is not None:
        assert _core.encode_message(*record) == data


def _state(data: bytes) -> None:
    state = _same(_core.decode_state, _core_ref.decode_state, data)
    if state is not None:
        assert _core.encode_state(*state) == data


def _log_entry(data: bytes) -> None:
    entry = _same(
        lambda given: _entry.Entry(given).transactions(),
        lambda given: _entry_ref.Entry(given).transactions(),
        data,
    )
    if entry is not None:
        again = _core.encode_entry([_core.encode_transaction(*one) for one in entry])
        assert again == data


def _handle(data: bytes) -> None:
    text = data.decode("latin-1")
    receipt = _same(_core.decode_receipt, _core_ref.decode_receipt, text)
    if receipt is not None:
        for core in (_core, _core_ref):
            assert not core.receipt_is_genuine(SECRET, receipt), "a handle was guessed"


def _key(data: bytes) -> None:
    _same(_keys.parse_key, _keys_ref.parse_key, data)
    _same(_keys.split_queue_segment, _keys_ref.split_queue_segment, data)


def _message_id(data: bytes) -> None:
    _same(_core.message_id_position, _core_ref.message_id_position, data)


def _stored(decode: Decode, encode: Callable[[Any], bytes] | None = None) -> Decode:
    """Rows that only Python reads; what is read can be written, and is then read the same."""

    def judge(data: bytes) -> None:
        try:
            found = decode(data)
        except (ValueError, msgspec.MsgspecError):
            return
        if encode is not None:
            assert decode(encode(found)) == found

    return judge


DECODERS: Final[dict[bytes, Callable[[bytes], None]]] = {
    b"m": _message,
    b"s": _state,
    b"e": _log_entry,
    b"h": _handle,
    b"k": _key,
    b"i": _message_id,
    b"q": _stored(decode_queue, encode_queue),
    b"g": _stored(decode_generation),
    b"t": _stored(decode_task, encode_task),
    b"x": _stored(decode_extras, encode_extras),
    b"n": _stored(decode_record),
}


def check(data: bytes) -> None:
    decoder = DECODERS.get(data[:1])
    if decoder is not None:
        decoder(data[1:])
