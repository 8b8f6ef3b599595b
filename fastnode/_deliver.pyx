# cython: language_level=3
"""Handing messages out and removing them, many in one call, in C.

`_deliver_ref.py` is the readable version and owns the types. Layouts are those of `_core` and
`_keys`; what is saved here is the interpreter between them.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport (
    PyUnicode_AsUTF8AndSize,
    PyUnicode_DecodeASCII,
    PyUnicode_DecodeUTF8,
)
from libc.stdint cimport UINT32_MAX, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from fastnode._core cimport (
    ID_BYTES,
    ID_TEXT_BYTES,
    MESSAGE_HEAD_BYTES,
    RECEIPT_BYTES_MAX,
    TRANSACTION_HEAD_BYTES,
    read_receipt,
    receipt_at,
    receipt_size,
    receipt_text,
    sixteen,
    store_field,
    store_hexadecimal,
    store_id_text,
    store_receipt,
    store_transaction_head,
    tag_of,
)
from fastnode._keys cimport (
    address,
    load_u16,
    load_u32,
    load_u64,
    store,
    store_u16,
    store_u32,
    store_u64,
)

from fastnode import _core_ref as _core_types
from fastnode import _deliver_ref as _ref

cdef enum:
    TIME_BYTES = 8
    STATE_BYTES = 29
    # A kind and the lengths of a key and a value.
    WRITE_HEAD_BYTES = 9
    DELTA_BYTES = 8
    MASK_BITS = 16
    # Where a record has its id, its time, its digest and the sizes of what follows its head.
    ID_AT = 2
    SENT_AT = 18
    DIGEST_AT = 26
    SENDER_SIZE_AT = 42
    EXTRAS_SIZE_AT = 44
    BODY_SIZE_AT = 48

cdef type _MessageState = _core_types.MessageState
cdef object _PUT = _core_types.PUT
cdef object _DELETE = _core_types.DELETE
cdef object _FRESH_PUT = _core_types.FRESH_PUT
cdef object _FRESH_DELETE = _core_types.FRESH_DELETE
cdef uint8_t _RECORD_VERSION = _core_types.RECORD_VERSION
cdef bytes _TIMER_RECEIVED = _ref.TIMER_RECEIVED
cdef uint8_t _PUT_KIND = _core_types.PUT
cdef uint8_t _DELETE_KIND = _core_types.DELETE
cdef uint8_t _FRESH_PUT_KIND = _core_types.FRESH_PUT
cdef uint8_t _FRESH_DELETE_KIND = _core_types.FRESH_DELETE
cdef uint8_t _TOUCH_KIND = _core_types.TOUCH
cdef uint8_t _ADD_KIND = _core_types.ADD
cdef uint8_t _MAX_KIND = _core_types.MAX


def plan_deliveries(keys not None, uint64_t commit_ts, uint64_t visible_at, messages not None):
    cdef bytes state_prefix = bytes_at(keys, 1), timer_prefix = bytes_at(keys, 2)
    cdef list writes = [], states = []
    cdef Place place
    cdef uint64_t count, was_visible_at, first_ms
    cdef object message, old
    for message in messages:
        read_place(part(message, 0), &place)
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
        read_place(position, &place)
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
    cdef Py_ssize_t size
    cdef const char* letters
    cdef const uint8_t* at
    try:
        letters = PyUnicode_AsUTF8AndSize(handle, &size)
    except UnicodeEncodeError:
        return None
    at = genuine_receipt(secret, partition, <const uint8_t*>letters, size, raw)
    return None if at is NULL else receipt_at(at, partition)


cdef const uint8_t* genuine_receipt(
    const uint8_t* secret, int64_t partition, const uint8_t* letters, Py_ssize_t size, uint8_t* raw
) noexcept nogil:
    """Where in `raw` the numbers of the handle begin; NULL if the queue never issued it."""
    cdef int64_t named_partition
    cdef const uint8_t* at = read_receipt(letters, size, raw, &named_partition)
    if at is NULL:
        return NULL
    # One xor and one comparison of whole words: no early exit that an attacker could time.
    cdef uint64_t tag = tag_of(secret, load_u64(at), at + 8, load_u64(at + 24))
    if (tag ^ load_u64(at + 32)) != 0 or named_partition != partition:
        return NULL
    return at


def state_keys(bytes prefix not None, positions not None):
    cdef Place place
    cdef list keys = []
    for position in positions:
        read_place(position, &place)
        keys.append(key_of(prefix, &place))
    return keys


# --- whole calls ---------------------------------------------------------------------------------

def page_items(rows not None, skipped not None):
    cdef list items = []
    cdef bytes key
    cdef const uint8_t* at
    for row in rows:
        key = bytes_at(row, 0)
        if PyBytes_GET_SIZE(key) < PLACE_BYTES:
            raise ValueError("a key ends with a position")
        at = address(key) + PyBytes_GET_SIZE(key) - PLACE_BYTES
        position = position_at(at)
        if position not in skipped:
            items.append((position, part(row, 1)))
    return items


def place_plain(
    items not None, int64_t expired_ms, bytes state_prefix not None, set held not None
):
    cdef tuple rows = tuple(items)
    cdef Py_ssize_t size
    return placed(rows, expired_ms, state_prefix, held, &size)


def take_plain(
    buffer not None, Py_ssize_t limit, int64_t expired_ms, bytes state_prefix not None,
    set held not None
):
    cdef list items = []
    cdef Py_ssize_t size
    for item in buffer:
        if len(items) >= limit:
            break
        items.append(item)
    cdef tuple rows = tuple(items)
    cdef tuple places = placed(rows, expired_ms, state_prefix, held, &size)
    if places is None:
        return None
    pop = buffer.popleft
    for item in items:
        pop()
    return items, places[0], places[1], size


cdef tuple placed(
    tuple rows, int64_t expired_ms, bytes state_prefix, set held, Py_ssize_t* size
):
    """Positions and keys, and how large the records are; None unless all are plain and free."""
    cdef Py_ssize_t index, count = len(rows)
    cdef tuple positions = PyTuple_New(count), keys = PyTuple_New(count)
    cdef Place place
    cdef bytes stored, key
    size[0] = 0
    for index in range(count):
        position, stored = part(rows[index], 0), bytes_at(rows[index], 1)
        if not is_plain(record_of(stored), expired_ms):
            return None
        read_place(position, &place)
        key = key_of(state_prefix, &place)
        if key in held:
            return None
        size[0] += PyBytes_GET_SIZE(stored)
        Py_INCREF(position)
        PyTuple_SET_ITEM(positions, index, position)
        Py_INCREF(key)
        PyTuple_SET_ITEM(keys, index, key)
    return positions, keys


cdef inline bint is_plain(const uint8_t* record, int64_t expired_ms) noexcept nogil:
    # Nothing was sent before the clock began.
    return record[1] == 0 and (
        expired_ms < 0 or load_u64(record + SENT_AT) > <uint64_t>expired_ms
    )


def plan_receive(
    bytes request not None,
    uint64_t start_ts,
    uint64_t commit_ts,
    uint8_t retention,
    keys not None,
    uint64_t visible_at,
    mark not None,
    items not None,
    heads not None,
):
    cdef object places = part(keys, 1)
    cdef bytes state_prefix = bytes_at(places, 1), timer_prefix = bytes_at(places, 2)
    cdef bytes in_flight = bytes_at(keys, 3), mark_key = bytes_at(keys, 4)
    cdef bytes state = state_of(commit_ts, 1, visible_at, commit_ts >> 16)
    cdef tuple rows = tuple(items), touched = tuple(heads)
    cdef Py_ssize_t index, count = len(rows), heads_count = len(touched)
    cdef Py_ssize_t size = count * (
        2 * WRITE_HEAD_BYTES + PyBytes_GET_SIZE(state_prefix) + PLACE_BYTES + STATE_BYTES
        + PyBytes_GET_SIZE(timer_prefix) + TIME_BYTES + PLACE_BYTES + 1
    )
    for index in range(heads_count):
        size += WRITE_HEAD_BYTES + PyBytes_GET_SIZE(bytes_at(touched, index))
    size += delta_size(in_flight) + WRITE_HEAD_BYTES + PyBytes_GET_SIZE(mark_key) + PLACE_BYTES
    cdef Place place
    cdef bytes result = begun(
        request, start_ts, commit_ts, retention, mask_of(count), keys,
        2 * count + heads_count + 2, size
    )
    cdef uint8_t* at = address(result) + PyBytes_GET_SIZE(result) - size
    for index in range(count):
        read_place(part(rows[index], 0), &place)
        at = store_write(at, _PUT_KIND, state_prefix, NULL, &place, STATE_BYTES)
        at = store(at, address(state), STATE_BYTES)
        at = store_write(at, _FRESH_PUT_KIND, timer_prefix, &visible_at, &place, 1)
        at[0] = address(_TIMER_RECEIVED)[0]
        at += 1
    for index in range(heads_count):
        at = store_write(at, _TOUCH_KIND, bytes_at(touched, index), NULL, NULL, 0)
    at = store_delta(at, in_flight, count)
    read_place(mark, &place)
    at = store_write(at, _MAX_KIND, mark_key, NULL, NULL, PLACE_BYTES)
    at = store_u16(store_u64(at, place.commit_ts), place.entry)
    assert at == address(result) + PyBytes_GET_SIZE(result)
    return result


def plan_delete(
    bytes request not None,
    uint64_t start_ts,
    uint64_t commit_ts,
    uint8_t retention,
    keys not None,
    uint16_t mask,
    dict times not None,
    rest not None,
):
    cdef object places = part(keys, 1)
    cdef bytes data_prefix = bytes_at(places, 0), state_prefix = bytes_at(places, 1)
    cdef bytes timer_prefix = bytes_at(places, 2)
    cdef tuple others = tuple(rest)
    cdef Py_ssize_t index, count = len(times), others_count = len(others)
    cdef Py_ssize_t size = count * (
        3 * WRITE_HEAD_BYTES + PyBytes_GET_SIZE(data_prefix) + PyBytes_GET_SIZE(state_prefix)
        + PyBytes_GET_SIZE(timer_prefix) + TIME_BYTES + 3 * PLACE_BYTES
    )
    for index in range(2, 4):
        size += delta_size(bytes_at(keys, index))
    for index in range(others_count):
        size += WRITE_HEAD_BYTES + PyBytes_GET_SIZE(bytes_at(others[index], 1))
        size += PyBytes_GET_SIZE(bytes_at(others[index], 2))
    cdef Place place
    cdef uint64_t time
    cdef uint8_t kind
    cdef bytes value, result = begun(
        request, start_ts, commit_ts, retention, mask, keys, 3 * count + 2 + others_count, size
    )
    cdef uint8_t* at = address(result) + PyBytes_GET_SIZE(result) - size
    for position, visible_at in times.items():
        read_place(position, &place)
        time = visible_at
        at = store_write(at, _DELETE_KIND, state_prefix, NULL, &place, 0)
        at = store_write(at, _FRESH_DELETE_KIND, data_prefix, NULL, &place, 0)
        at = store_write(at, _FRESH_DELETE_KIND, timer_prefix, &time, &place, 0)
    at = store_delta(at, bytes_at(keys, 2), -count)
    at = store_delta(at, bytes_at(keys, 3), -count)
    for index in range(others_count):
        kind, value = part(others[index], 0), bytes_at(others[index], 2)
        at = store_write(
            at, kind, bytes_at(others[index], 1), NULL, NULL, PyBytes_GET_SIZE(value)
        )
        at = store(at, address(value), PyBytes_GET_SIZE(value))
    assert at == address(result) + PyBytes_GET_SIZE(result)
    return result


cdef bytes begun(
    bytes request, uint64_t start_ts, uint64_t commit_ts, uint8_t retention, uint16_t mask, keys,
    Py_ssize_t writes, Py_ssize_t size
):
    """A transaction that checks the queue's generation, with room for its writes."""
    cdef bytes generation = bytes_at(keys, 0)
    cdef const uint8_t* identity = sixteen(request, "a request")
    cdef Py_ssize_t head_size = TRANSACTION_HEAD_BYTES + 4 + PyBytes_GET_SIZE(generation)
    cdef bytes result = PyBytes_FromStringAndSize(NULL, head_size + size)
    cdef uint8_t* at = store_transaction_head(
        address(result), identity, start_ts, commit_ts, retention, mask, 1, <uint32_t>writes
    )
    store_field(at, address(generation), PyBytes_GET_SIZE(generation))
    return result


cdef inline uint8_t* store_write(
    uint8_t* at, uint8_t kind, bytes prefix, const uint64_t* time, const Place* place,
    Py_ssize_t value_size
) noexcept:
    """A write up to its value: the key is the prefix with what is given besides."""
    cdef Py_ssize_t prefix_size = PyBytes_GET_SIZE(prefix)
    cdef Py_ssize_t size = prefix_size
    if time is not NULL:
        size += TIME_BYTES
    if place is not NULL:
        size += PLACE_BYTES
    at[0] = kind
    at = store(store_u32(at + 1, <uint32_t>size), address(prefix), prefix_size)
    if time is not NULL:
        at = store_u64(at, time[0])
    if place is not NULL:
        at = store_u16(store_u64(at, place.commit_ts), place.entry)
    return store_u32(at, <uint32_t>value_size)


cdef inline Py_ssize_t delta_size(bytes key) noexcept:
    return WRITE_HEAD_BYTES + PyBytes_GET_SIZE(key) + DELTA_BYTES


cdef inline uint8_t* store_delta(uint8_t* at, bytes key, int64_t delta) noexcept:
    return store_u64(store_write(at, _ADD_KIND, key, NULL, NULL, DELTA_BYTES), <uint64_t>delta)


cdef inline uint16_t mask_of(Py_ssize_t count) except? 0:
    if count > MASK_BITS:
        raise OverflowError("a mask has 16 bits")
    return <uint16_t>((<uint32_t>1 << count) - 1)


def show_messages(
    bytes secret not None, uint64_t generation, int64_t partition, uint64_t nonce, items not None
):
    cdef const uint8_t* key = sixteen(secret, "a hash key")
    cdef tuple rows = tuple(items)
    cdef Py_ssize_t index, count = len(rows)
    cdef Py_ssize_t[MASK_BITS] body_sizes
    cdef const uint8_t* record
    if count > MASK_BITS:
        raise OverflowError("a receive takes at most 16 messages")
    cdef Py_ssize_t size = _MESSAGE_BYTES + ID_TEXT_BYTES + 2 * ID_BYTES + receipt_size(partition)
    size = _ANSWER_BYTES + count * size
    for index in range(count):
        record = record_of(bytes_at(rows[index], 1))
        body_sizes[index] = escaped_size(body_of(record), load_u32(record + BODY_SIZE_AT))
        size += body_sizes[index]
    cdef bytes result = PyBytes_FromStringAndSize(NULL, size - (1 if count else 0))
    cdef uint8_t* at = store_text(address(result), _ANSWER_BEGIN)
    for index in range(count):
        record = record_of(bytes_at(rows[index], 1))
        if index:
            at = store_text(at, b",")
        at = store_id_text(store_text(at, _MESSAGE_ID), record + ID_AT)
        at = store_receipt(
            store_text(at, _RECEIPT_HANDLE), key, generation, record + ID_AT, nonce, partition
        )
        at = store_hexadecimal(store_text(at, _BODY_MD5), record + DIGEST_AT, ID_BYTES)
        at = store_escaped(
            store_text(at, _BODY), body_of(record), load_u32(record + BODY_SIZE_AT),
            body_sizes[index]
        )
        at = store_text(at, _MESSAGE_END)
    at = store_text(at, _ANSWER_END)
    assert at == address(result) + PyBytes_GET_SIZE(result)
    return result


cdef bytes _ANSWER_BEGIN = b'{"Messages":['
cdef bytes _MESSAGE_ID = b'{"MessageId":"'
cdef bytes _RECEIPT_HANDLE = b'","ReceiptHandle":"'
cdef bytes _BODY_MD5 = b'","MD5OfBody":"'
cdef bytes _BODY = b'","Body":"'
cdef bytes _MESSAGE_END = b'"}'
cdef bytes _ANSWER_END = b"]}"
cdef Py_ssize_t _ANSWER_BYTES = len(_ANSWER_BEGIN + _ANSWER_END)
# With the comma before it.
cdef Py_ssize_t _MESSAGE_BYTES = 1 + len(
    _MESSAGE_ID + _RECEIPT_HANDLE + _BODY_MD5 + _BODY + _MESSAGE_END
)


cdef inline uint8_t* store_text(uint8_t* at, bytes text) noexcept:
    return store(at, address(text), PyBytes_GET_SIZE(text))


def hidden_messages(
    bytes secret not None, int64_t partition, uint64_t generation, handles not None,
    dict scheduled not None, bytes state_prefix not None, set held not None
):
    cdef const uint8_t* secret_key = sixteen(secret, "a hash key")
    cdef Named named_by
    cdef dict times = {}
    cdef list keys = []
    for handle in handles:
        if not read_named(secret_key, partition, generation, handle, &named_by):
            return None
        position = position_of(&named_by.place)
        visible_at = scheduled.get(position)
        key = key_of(state_prefix, &named_by.place)
        if visible_at is None or key in held:
            return None
        times[position] = visible_at
        # Two handles may name one message.
        if len(times) > len(keys):
            keys.append(key)
    return times, tuple(keys)


cdef bint read_named(
    const uint8_t* secret, int64_t partition, uint64_t generation, object handle, Named* named_by
) except -1:
    """False unless the handle is genuine, of that generation, and its id names a position."""
    cdef uint8_t[RECEIPT_BYTES_MAX] raw
    cdef const uint8_t* at
    cdef uint64_t high, low
    if type(handle) is not bytes:
        raise TypeError("handles are bytes")
    at = genuine_receipt(
        secret, partition, address(<bytes>handle), PyBytes_GET_SIZE(handle), raw
    )
    if at is NULL or load_u64(at) != generation:
        return False
    high, low = load_u64(at + 8), load_u64(at + 16)
    # Version and variant of the ids that name positions.
    if ((high >> 12) & 15) != 7 or (low >> 62) != 2:
        return False
    named_by.place.commit_ts = ((high >> 16) << 16) | ((high & 0xFFF) << 4) | ((low >> 58) & 15)
    named_by.place.entry = <uint16_t>((low >> 54) & 15)
    named_by.nonce = load_u64(at + 24)
    return True


cdef inline const uint8_t* body_of(const uint8_t* record) noexcept nogil:
    return (
        record + MESSAGE_HEAD_BYTES + load_u16(record + SENDER_SIZE_AT)
        + load_u32(record + EXTRAS_SIZE_AT)
    )


cdef const uint8_t* record_of(bytes stored) except NULL:
    """Where a record is, which is known to be whole then."""
    cdef const uint8_t* record = address(stored)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(stored)
    if size < MESSAGE_HEAD_BYTES or record[0] != _RECORD_VERSION:
        raise ValueError("unknown version")
    if body_of(record) - record + <Py_ssize_t>load_u32(record + BODY_SIZE_AT) != size:
        raise ValueError("truncated")
    return record


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
