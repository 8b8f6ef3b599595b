# cython: language_level=3
"""Message ids, receipt handles, records and encoded transactions in C.

`_core_ref.py` is the readable version and owns constants and types; tests hold the two equal.
Encoders allocate their result once and copy into it; decoders read through a cursor that never
passes its end. Key layouts are not here; entries are read in `_entry.pyx`.
"""

from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_CheckExact,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from cpython.long cimport PyLong_AsLong, PyLong_Check
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeASCII, PyUnicode_DecodeUTF8
from libc.stdint cimport UINT32_MAX, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.string cimport memset

from fastnode._keys cimport (
    Cursor,
    address,
    finish,
    load_u16,
    load_u32,
    load_u64,
    load_u64_little,
    store,
    store_u16,
    store_u32,
    store_u64,
    take,
)

from fastnode import _core_ref as _ref

cdef extern from "Python.h":
    ctypedef object (*newfunc)(type, tuple, PyObject*)
    ctypedef struct PyTypeObject:
        newfunc tp_new
    PyTypeObject PyTuple_Type
    object PySequence_Fast(object sequence, const char* message)
    Py_ssize_t PySequence_Fast_GET_SIZE(object sequence)
    PyObject* PySequence_Fast_GET_ITEM(object sequence, Py_ssize_t index)

cdef type _Receipt = _ref.Receipt
cdef type _MessageRecord = _ref.MessageRecord
cdef type _MessageState = _ref.MessageState

cdef uint8_t _RECORD_VERSION = _ref.RECORD_VERSION
cdef uint8_t _ENTRY_VERSION = _ref.ENTRY_VERSION
cdef uint8_t _RECEIPT_VERSION = _ref.RECEIPT_VERSION
cdef uint8_t _RECEIPT_VERSION_PARTITIONED = _ref.RECEIPT_VERSION_PARTITIONED
cdef Py_ssize_t _RECEIPT_CHARS = _ref.RECEIPT_CHARS
cdef Py_ssize_t _RECEIPT_CHARS_PARTITIONED = _ref.RECEIPT_CHARS_PARTITIONED
cdef int64_t _UNPARTITIONED = _ref.UNPARTITIONED
cdef int _ENTRIES_MAX = _ref.ENTRIES_MAX

assert (KIND_PUT, KIND_DELETE, KIND_DROP, KIND_ADD) == (_ref.PUT, _ref.DELETE, _ref.DROP, _ref.ADD)
assert (KIND_MAX, KIND_TOUCH) == (_ref.MAX, _ref.TOUCH)
assert (KIND_FRESH_PUT, KIND_FRESH_DELETE) == (_ref.FRESH_PUT, _ref.FRESH_DELETE)

cdef enum:
    STATE_BYTES = 29
    NOT_A_DIGIT = 255

cdef uint64_t _TEN_DIGITS = 10_000_000_000
cdef uint8_t[64] _digits
cdef uint8_t[256] _digit_values


def siphash24(bytes key not None, bytes message not None):
    return siphash(sixteen(key, "a hash key"), address(message), PyBytes_GET_SIZE(message))


def message_id(uint64_t commit_ts, long entry, bytes request not None):
    cdef const uint8_t* source = sixteen(request, "a request")
    check_entry(entry)
    cdef bytes result = PyBytes_FromStringAndSize(NULL, ID_BYTES)
    store_message_id(address(result), commit_ts, entry, source)
    return result


cdef int check_entry(long entry) except -1:
    if entry < 0 or entry >= _ENTRIES_MAX:
        raise ValueError("a transaction creates at most 16 messages")
    return 0


cdef uint8_t* store_message_id(
    uint8_t* at, uint64_t commit_ts, long entry, const uint8_t* request
) noexcept nogil:
    cdef uint64_t folded = load_u64(request) ^ load_u64(request + 8)
    cdef uint64_t high = (commit_ts & ~<uint64_t>0xFFFF) | 0x7000 | ((commit_ts >> 4) & 0xFFF)
    cdef uint64_t low = (
        (<uint64_t>2 << 62) | ((commit_ts & 0xF) << 58) | (<uint64_t>entry << 54)
        | (folded & ((<uint64_t>1 << 54) - 1))
    )
    return store_u64(store_u64(at, high), low)


def message_id_text(bytes message_id not None):
    cdef const uint8_t* source = sixteen(message_id, "a message id")
    cdef uint8_t[ID_TEXT_BYTES] letters
    store_id_text(letters, source)
    return PyUnicode_DecodeASCII(<char*>letters, ID_TEXT_BYTES, NULL)


def sequence_number(position not None, int64_t partition):
    cdef uint64_t commit_ts = position >> 16
    cdef uint64_t entry = position & 0xFFFF
    cdef char[24] digits
    # The product is wider than 64 bits: ten digits and what is above them.
    cdef uint64_t low = commit_ts % _TEN_DIGITS * 512 + max(partition, 0) * 16 + entry
    cdef uint64_t high = commit_ts // _TEN_DIGITS * 512 + low // _TEN_DIGITS
    cdef int size = snprintf(
        digits, sizeof(digits), b"%010llu%010llu",
        <unsigned long long>high, <unsigned long long>(low % _TEN_DIGITS),
    )
    return PyUnicode_DecodeASCII(digits, size, NULL)


def message_id_position(bytes message_id not None):
    cdef const uint8_t* source = sixteen(message_id, "a message id")
    cdef uint64_t high = load_u64(source)
    cdef uint64_t low = load_u64(source + 8)
    if (high >> 12) & 15 != 7 or low >> 62 != 2:
        raise ValueError("the message id is not one of ours")
    cdef uint64_t counter = ((high & 0xFFF) << 4) | ((low >> 58) & 15)
    return (high & ~<uint64_t>0xFFFF) | counter, <long>((low >> 54) & 15)


def receipt_tag(
    bytes secret not None, uint64_t generation, bytes message_id not None, uint64_t nonce
):
    cdef const uint8_t* identity = sixteen(message_id, "a message id")
    return tag_of(sixteen(secret, "a hash key"), generation, identity, nonce)


def encode_receipt(
    bytes secret not None,
    uint64_t generation,
    bytes message_id not None,
    uint64_t nonce,
    int64_t partition=-1,
):
    cdef const uint8_t* identity = sixteen(message_id, "a message id")
    return receipt_text(sixteen(secret, "a hash key"), generation, identity, nonce, partition)


cdef str receipt_text(
    const uint8_t* secret,
    uint64_t generation,
    const uint8_t* identity,
    uint64_t nonce,
    int64_t partition,
):
    cdef uint8_t[RECEIPT_CHARS_MAX] letters
    cdef uint8_t* end = letters
    if receipt_size(partition):
        end = store_receipt(letters, secret, generation, identity, nonce, partition)
    return PyUnicode_DecodeASCII(<char*>letters, end - letters, NULL)


cdef Py_ssize_t receipt_size(int64_t partition) except -1:
    """How many letters the handles of a partition have."""
    if partition == _UNPARTITIONED:
        return _RECEIPT_CHARS
    if partition < 0 or partition > <int64_t>UINT32_MAX:
        raise OverflowError("a partition is an unsigned 32-bit number")
    return _RECEIPT_CHARS_PARTITIONED


cdef uint8_t* store_receipt(
    uint8_t* letters,
    const uint8_t* secret,
    uint64_t generation,
    const uint8_t* identity,
    uint64_t nonce,
    int64_t partition,
) noexcept nogil:
    """As many letters as `receipt_size` says, which has looked at the partition."""
    cdef uint64_t tag = tag_of(secret, generation, identity, nonce)
    cdef uint8_t[RECEIPT_BYTES_MAX] raw
    cdef uint8_t* at = raw + 1
    raw[0] = _RECEIPT_VERSION
    if partition != _UNPARTITIONED:
        raw[0] = _RECEIPT_VERSION_PARTITIONED
        at = store_u32(at, <uint32_t>partition)
    at = store(store_u64(at, generation), identity, ID_BYTES)
    at = store_u64(store_u64(at, nonce), tag)
    return store_base64(letters, raw, at - raw, _digits)


def decode_receipt(str handle not None):
    cdef uint8_t[RECEIPT_BYTES_MAX] raw
    cdef int64_t partition
    cdef Py_ssize_t size
    cdef const char* letters = PyUnicode_AsUTF8AndSize(handle, &size)
    cdef const uint8_t* at = read_receipt(<const uint8_t*>letters, size, raw, &partition)
    if at is NULL:
        raise ValueError("not a receipt handle of any version")
    return receipt_at(at, partition)


cdef const uint8_t* read_receipt(
    const uint8_t* letters, Py_ssize_t size, uint8_t* raw, int64_t* partition
) noexcept nogil:
    """Where in `raw`, which the letters of a handle are decoded into, its numbers begin; NULL if
    this is no handle.
    """
    cdef bint partitioned = size == _RECEIPT_CHARS_PARTITIONED
    if size != _RECEIPT_CHARS and not partitioned:
        return NULL
    if not base64_decode(letters, size, raw, _digit_values):
        return NULL
    if raw[0] != (_RECEIPT_VERSION_PARTITIONED if partitioned else _RECEIPT_VERSION):
        return NULL
    partition[0] = load_u32(raw + 1) if partitioned else _UNPARTITIONED
    return raw + (5 if partitioned else 1)


cdef object receipt_at(const uint8_t* at, int64_t partition):
    return named(
        _Receipt,
        (partition, load_u64(at), slice_of(at + 8, ID_BYTES), load_u64(at + 24), load_u64(at + 32)),
    )


def receipt_is_genuine(bytes secret not None, receipt not None):
    cdef bytes message_id
    cdef uint64_t generation, nonce, tag
    _, generation, message_id, nonce, tag = receipt
    cdef const uint8_t* identity = sixteen(message_id, "a message id")
    # One xor and one comparison of whole words: no early exit that an attacker could time.
    return (tag_of(sixteen(secret, "a hash key"), generation, identity, nonce) ^ tag) == 0


def encode_message(
    uint8_t flags,
    bytes message_id not None,
    uint64_t sent_ms,
    bytes body_md5 not None,
    str sender not None,
    bytes extras not None,
    bytes body not None,
):
    cdef Message message
    message.flags = flags
    message.identity = sixteen(message_id, "a message id")
    message.sent_ms = sent_ms
    message.digest = sixteen(body_md5, "an MD5 digest")
    message.sender = PyUnicode_AsUTF8AndSize(sender, &message.sender_size)
    message.extras, message.extras_size = address(extras), PyBytes_GET_SIZE(extras)
    message.body, message.body_size = address(body), PyBytes_GET_SIZE(body)
    cdef bytes result = PyBytes_FromStringAndSize(NULL, message_size(&message))
    store_message(address(result), &message)
    return result


cdef Py_ssize_t message_size(const Message* one) except -1:
    if one.sender_size > 0xFFFF or one.extras_size > UINT32_MAX or one.body_size > UINT32_MAX:
        raise OverflowError("a part of the message is too long for its length field")
    return MESSAGE_HEAD_BYTES + one.sender_size + one.extras_size + one.body_size


cdef uint8_t* store_message(uint8_t* at, const Message* one) noexcept nogil:
    at[0] = _RECORD_VERSION
    at[1] = one.flags
    at = store_u64(store(at + 2, one.identity, ID_BYTES), one.sent_ms)
    at = store_u16(store(at, one.digest, ID_BYTES), <uint16_t>one.sender_size)
    at = store_u32(store_u32(at, <uint32_t>one.extras_size), <uint32_t>one.body_size)
    at = store(at, one.sender, one.sender_size)
    return store(store(at, one.extras, one.extras_size), one.body, one.body_size)


def decode_message(bytes record not None):
    cdef Cursor cursor = cursor_over(record)
    cdef const uint8_t* head = take(&cursor, MESSAGE_HEAD_BYTES)
    check_version(head[0], _RECORD_VERSION)
    cdef Py_ssize_t sender_size = load_u16(head + 42)
    cdef Py_ssize_t extras_size = load_u32(head + 44), body_size = load_u32(head + 48)
    cdef const uint8_t* sender = take(&cursor, sender_size)
    cdef const uint8_t* extras = take(&cursor, extras_size)
    cdef const uint8_t* body = take(&cursor, body_size)
    finish(&cursor)
    return named(
        _MessageRecord,
        (
            head[1],
            slice_of(head + 2, ID_BYTES),
            load_u64(head + 18),
            slice_of(head + 26, ID_BYTES),
            PyUnicode_DecodeUTF8(<char*>sender, sender_size, NULL),
            slice_of(extras, extras_size),
            slice_of(body, body_size),
        ),
    )


def encode_state(
    uint64_t nonce, uint32_t receive_count, uint64_t visible_at, uint64_t first_receive_ms
):
    cdef bytes result = PyBytes_FromStringAndSize(NULL, STATE_BYTES)
    cdef uint8_t* at = address(result)
    at[0] = _RECORD_VERSION
    at = store_u32(store_u64(at + 1, nonce), receive_count)
    store_u64(store_u64(at, visible_at), first_receive_ms)
    return result


def decode_state(bytes record not None):
    cdef Cursor cursor = cursor_over(record)
    cdef const uint8_t* at = take(&cursor, STATE_BYTES)
    check_version(at[0], _RECORD_VERSION)
    finish(&cursor)
    return named(
        _MessageState,
        (load_u64(at + 1), load_u32(at + 9), load_u64(at + 13), load_u64(at + 21)),
    )


def encode_transaction(
    bytes request not None,
    uint64_t start_ts,
    uint64_t commit_ts,
    uint8_t retention,
    uint16_t mask,
    reads,
    writes,
):
    cdef const uint8_t* identity = sixteen(request, "a request")
    cdef object read_keys = PySequence_Fast(reads, b"reads is a sequence of keys")
    cdef object write_rows = PySequence_Fast(writes, b"writes is a sequence of rows")
    # Both passes touch only exact bytes and tuples, and ints, so no foreign code runs between
    # measuring and copying.
    cdef Py_ssize_t size = TRANSACTION_HEAD_BYTES + reads_size(read_keys) + writes_size(write_rows)
    cdef bytes result = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* at = store_transaction_head(
        address(result), identity, start_ts, commit_ts, retention, mask,
        <uint32_t>PySequence_Fast_GET_SIZE(read_keys),
        <uint32_t>PySequence_Fast_GET_SIZE(write_rows),
    )
    at = store_writes(store_blobs(at, read_keys), write_rows)
    assert at == address(result) + size
    return result


def encode_entry(transactions not None):
    cdef object parts = PySequence_Fast(transactions, b"transactions is a sequence of bytes")
    cdef Py_ssize_t size = 5 + reads_size(parts)
    cdef bytes result = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* at = address(result)
    at[0] = _ENTRY_VERSION
    at = store_blobs(store_u32(at + 1, <uint32_t>PySequence_Fast_GET_SIZE(parts)), parts)
    assert at == address(result) + size
    return result


cdef Py_ssize_t reads_size(object blobs) except -1:
    cdef Py_ssize_t index, size = 0, count = PySequence_Fast_GET_SIZE(blobs)
    if count > UINT32_MAX:
        raise OverflowError("too many parts")
    for index in range(count):
        size += blob_size(PySequence_Fast_GET_ITEM(blobs, index))
    return size


cdef inline Py_ssize_t blob_size(PyObject* item) except -1:
    if not PyBytes_CheckExact(<object>item):
        raise TypeError("keys and values are bytes")
    if PyBytes_GET_SIZE(<object>item) > UINT32_MAX:
        raise OverflowError("a key or value is too long for its length field")
    return 4 + PyBytes_GET_SIZE(<object>item)


cdef Py_ssize_t writes_size(object rows) except -1:
    cdef Py_ssize_t index, size = 0, count = PySequence_Fast_GET_SIZE(rows)
    cdef PyObject* row
    if count > UINT32_MAX:
        raise OverflowError("too many writes")
    for index in range(count):
        row = PySequence_Fast_GET_ITEM(rows, index)
        size += write_size(<object>row)
    return size


cdef inline Py_ssize_t write_size(object row) except -1:
    if not PyTuple_CheckExact(row) or PyTuple_GET_SIZE(row) != 3:
        raise TypeError("a write is a tuple of kind, key and value")
    cdef PyObject* key = PyTuple_GET_ITEM(row, 1)
    cdef PyObject* value = PyTuple_GET_ITEM(row, 2)
    cdef Py_ssize_t size = 1 + blob_size(key) + blob_size(value)
    check_write(
        kind_of(row),
        address(<bytes>key), PyBytes_GET_SIZE(<bytes>key),
        address(<bytes>value), PyBytes_GET_SIZE(<bytes>value),
    )
    return size


cdef inline long kind_of(object row) except? -1:
    cdef object kind = <object>PyTuple_GET_ITEM(row, 0)
    if not PyLong_Check(kind):
        raise TypeError("the kind of a write is an int")
    return PyLong_AsLong(kind)


cdef uint8_t* store_blobs(uint8_t* at, object blobs) noexcept:
    cdef Py_ssize_t index
    for index in range(PySequence_Fast_GET_SIZE(blobs)):
        at = store_blob(at, PySequence_Fast_GET_ITEM(blobs, index))
    return at


cdef inline uint8_t* store_blob(uint8_t* at, PyObject* blob) noexcept:
    return store_field(at, PyBytes_AS_STRING(<object>blob), PyBytes_GET_SIZE(<object>blob))


cdef uint8_t* store_writes(uint8_t* at, object rows) except NULL:
    cdef Py_ssize_t index
    cdef PyObject* row
    for index in range(PySequence_Fast_GET_SIZE(rows)):
        row = PySequence_Fast_GET_ITEM(rows, index)
        at[0] = <uint8_t>kind_of(<object>row)
        at = store_blob(at + 1, PyTuple_GET_ITEM(<object>row, 1))
        at = store_blob(at, PyTuple_GET_ITEM(<object>row, 2))
    return at


cdef inline object named(type cls, tuple fields):
    """An instance of a named tuple without a call of its constructor, which is Python code."""
    return PyTuple_Type.tp_new(cls, (fields,), NULL)


cdef inline bytes slice_of(const uint8_t* at, Py_ssize_t size):
    return PyBytes_FromStringAndSize(<const char*>at, size)


cdef inline Cursor cursor_over(bytes source) noexcept:
    cdef Cursor cursor
    cursor.at = address(source)
    cursor.end = cursor.at + PyBytes_GET_SIZE(source)
    return cursor


cdef inline int check_version(uint8_t found, uint8_t expected) except -1:
    if found != expected:
        raise ValueError("unknown version")
    return 0


cdef void fill_digits(bytes alphabet) noexcept:
    cdef int index
    memset(_digit_values, NOT_A_DIGIT, 256)
    for index in range(64):
        _digits[index] = address(alphabet)[index]
        _digit_values[_digits[index]] = <uint8_t>index


fill_digits(_ref.BASE64_DIGITS.encode())
