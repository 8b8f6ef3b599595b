# cython: language_level=3
"""Handing messages out and removing them, many in one call, in C.

`_deliver_ref.py` is the readable version and owns the types. Layouts are those of `_core` and
`_keys`; what is saved here is the interpreter between them.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_Check, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeASCII, PyUnicode_DecodeUTF8
from libc.stdint cimport UINT32_MAX, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from fastnode._core cimport (
    ID_BYTES,
    ID_TEXT_BYTES,
    RECEIPT_BYTES_MAX,
    read_receipt,
    receipt_at,
    receipt_text,
    sixteen,
    store_hexadecimal,
    store_id_text,
    tag_of,
)
from fastnode._keys cimport address, load_u64, store, store_u16, store_u32, store_u64

from fastnode import _core_ref as _core_types
from fastnode import _deliver_ref as _ref

cdef extern from "Python.h":
    ctypedef object (*newfunc)(type, tuple, PyObject*)
    ctypedef struct PyTypeObject:
        newfunc tp_new
    PyTypeObject PyTuple_Type

cdef enum:
    PLACE_BYTES = 10
    TIME_BYTES = 8
    STATE_BYTES = 29

cdef type _MessageState = _core_types.MessageState
cdef object _PUT = _core_types.PUT
cdef object _DELETE = _core_types.DELETE
cdef object _FRESH_PUT = _core_types.FRESH_PUT
cdef object _FRESH_DELETE = _core_types.FRESH_DELETE
cdef uint8_t _RECORD_VERSION = _core_types.RECORD_VERSION
cdef bytes _TIMER_RECEIVED = _ref.TIMER_RECEIVED

# What ends a key: commit timestamp and entry.
cdef struct Place:
    uint64_t commit_ts
    uint16_t entry


def plan_deliveries(keys not None, uint64_t commit_ts, uint64_t visible_at, messages not None):
    cdef bytes state_prefix = bytes_at(keys, 1), timer_prefix = bytes_at(keys, 2)
    cdef list writes = [], states = []
    cdef Place place
    cdef uint64_t count, was_visible_at, first_ms
    cdef object message, old
    for message in messages:
        place = place_of(part(message, 0))
        old = part(message, 1)
        count = was_visible_at = first_ms = 0
        if old is not None:
            count, was_visible_at, first_ms = part(old, 1), part(old, 2), part(old, 3)
        if was_visible_at:
            writes.append((_FRESH_DELETE, timer_key(timer_prefix, was_visible_at, &place), b""))
        if count >= UINT32_MAX:
            raise OverflowError("a message was received too often to be counted")
        first_ms = first_ms or commit_ts >> 16
        states.append(
            named(_MessageState, (commit_ts, count + 1, visible_at, first_ms))
        )
        writes.append((
            _PUT, key_of(state_prefix, &place),
            state_of(commit_ts, <uint32_t>count + 1, visible_at, first_ms),
        ))
        writes.append((_FRESH_PUT, timer_key(timer_prefix, visible_at, &place), _TIMER_RECEIVED))
    return writes, states


def plan_removals(keys not None, dict messages not None):
    cdef bytes data_prefix = bytes_at(keys, 0), state_prefix = bytes_at(keys, 1)
    cdef bytes timer_prefix = bytes_at(keys, 2)
    cdef list writes = []
    cdef Place place
    for position, visible_at in messages.items():
        place = place_of(position)
        writes.append((_DELETE, key_of(state_prefix, &place), b""))
        writes.append((_FRESH_DELETE, key_of(data_prefix, &place), b""))
        writes.append((_FRESH_DELETE, timer_key(timer_prefix, visible_at, &place), b""))
    return writes


def show_deliveries(
    bytes secret not None, uint64_t generation, int64_t partition, list records not None,
    list states not None
):
    cdef const uint8_t* key = sixteen(secret, "a hash key")
    cdef Py_ssize_t index, count = len(records)
    cdef uint8_t[ID_TEXT_BYTES] letters
    cdef bytes digest, body, identity
    cdef list shown = []
    if len(states) != count:
        raise ValueError("every message has a state")
    for index in range(count):
        record = records[index]
        identity, digest, body = bytes_at(record, 1), bytes_at(record, 3), bytes_at(record, 6)
        store_id_text(letters, sixteen(identity, "a message id"))
        message_id = PyUnicode_DecodeASCII(<char*>letters, ID_TEXT_BYTES, NULL)
        store_hexadecimal(letters, sixteen(digest, "an MD5 digest"), ID_BYTES)
        shown.append((
            message_id,
            receipt_text(key, generation, address(identity), part(states[index], 0), partition),
            PyUnicode_DecodeASCII(<char*>letters, 2 * ID_BYTES, NULL),
            PyUnicode_DecodeUTF8(<char*>address(body), PyBytes_GET_SIZE(body), NULL),
        ))
    return shown


def open_receipts(bytes secret not None, int64_t partition, handles not None):
    cdef const uint8_t* key = sixteen(secret, "a hash key")
    return [opened_receipt(key, partition, handle) for handle in handles]


cdef object opened_receipt(const uint8_t* secret, int64_t partition, str handle):
    cdef uint8_t[RECEIPT_BYTES_MAX] raw
    cdef int64_t named_partition
    cdef const uint8_t* at
    try:
        at = read_receipt(handle, raw, &named_partition)
    except ValueError:
        return None
    # One xor and one comparison of whole words: no early exit that an attacker could time.
    cdef uint64_t tag = tag_of(secret, load_u64(at), at + 8, load_u64(at + 24))
    if (tag ^ load_u64(at + 32)) != 0 or named_partition != partition:
        return None
    return receipt_at(at, partition)


def state_keys(bytes prefix not None, positions not None):
    cdef Place place
    cdef list keys = []
    for position in positions:
        place = place_of(position)
        keys.append(key_of(prefix, &place))
    return keys


cdef inline Place place_of(object position) except *:
    cdef Place place
    place.commit_ts = position >> 16
    place.entry = position & 0xFFFF
    return place


cdef inline bytes key_of(bytes prefix, const Place* place):
    cdef Py_ssize_t size = PyBytes_GET_SIZE(prefix)
    cdef bytes key = PyBytes_FromStringAndSize(NULL, size + PLACE_BYTES)
    store_u16(store_u64(store(address(key), address(prefix), size), place.commit_ts), place.entry)
    return key


cdef inline bytes timer_key(bytes prefix, uint64_t at, const Place* place):
    cdef Py_ssize_t size = PyBytes_GET_SIZE(prefix)
    cdef bytes key = PyBytes_FromStringAndSize(NULL, size + TIME_BYTES + PLACE_BYTES)
    cdef uint8_t* end = store_u64(store(address(key), address(prefix), size), at)
    store_u16(store_u64(end, place.commit_ts), place.entry)
    return key


cdef inline bytes state_of(
    uint64_t nonce, uint32_t receive_count, uint64_t visible_at, uint64_t first_receive_ms
):
    cdef bytes state = PyBytes_FromStringAndSize(NULL, STATE_BYTES)
    cdef uint8_t* at = address(state)
    at[0] = _RECORD_VERSION
    at = store_u32(store_u64(at + 1, nonce), receive_count)
    store_u64(store_u64(at, visible_at), first_receive_ms)
    return state


cdef inline object named(type cls, tuple fields):
    """An instance of a named tuple without a call of its constructor, which is Python code."""
    return PyTuple_Type.tp_new(cls, (fields,), NULL)


cdef inline object part(object row, Py_ssize_t index):
    """Of a named tuple too, which Cython would iterate over."""
    if not PyTuple_Check(row) or index >= PyTuple_GET_SIZE(row):
        raise TypeError("too few parts")
    return <object>PyTuple_GET_ITEM(row, index)


cdef inline bytes bytes_at(object row, Py_ssize_t index):
    cdef object found = part(row, index)
    if type(found) is not bytes:
        raise TypeError("keys and values are bytes")
    return <bytes>found
