# cython: language_level=3
"""A send in C, from its stamps to its answer: ids, digests, records and the transaction that holds
them, written into one buffer.

`_send_ref.py` is the readable version and owns the types. Layouts are those of `_core` and `_keys`;
what is saved here is the interpreter between them, and every object that nobody keeps.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_Check, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeASCII
from libc.stdint cimport UINT32_MAX, uint8_t, uint16_t, uint32_t, uint64_t

from fastnode._core cimport (
    ID_BYTES,
    ID_TEXT_BYTES,
    MESSAGE_HEAD_BYTES,
    TRANSACTION_HEAD_BYTES,
    Message,
    check_entry,
    message_size,
    sixteen,
    store_field,
    store_hexadecimal,
    store_id_text,
    store_message,
    store_message_id,
    store_transaction_head,
)
from fastnode._keys cimport address, store, store_u16, store_u32, store_u64
from fastnode._md5 cimport DIGEST_BYTES, Hashed, md5_each

from fastnode import _core_ref as _core_types
from fastnode import _send_ref as _ref
from fastnode._keys import text as _text

cdef extern from "Python.h":
    ctypedef object (*newfunc)(type, tuple, PyObject*)
    ctypedef struct PyTypeObject:
        newfunc tp_new
    PyTypeObject PyTuple_Type

cdef extern from *:
    """
    #define ANSWER_START "{\\"Successful\\":["
    #define RESULT_ID "{\\"Id\\":\\""
    #define RESULT_MESSAGE "\\",\\"MessageId\\":\\""
    #define RESULT_DIGEST "\\",\\"MD5OfMessageBody\\":\\""
    #define RESULT_NUMBER "\\",\\"SequenceNumber\\":\\""
    #define RESULT_END "\\"}"
    #define ANSWER_END "]}"
    """
    const char[] ANSWER_START, RESULT_ID, RESULT_MESSAGE, RESULT_DIGEST, RESULT_NUMBER, RESULT_END
    const char[] ANSWER_END

cdef type _PlannedSend = _ref.PlannedSend
cdef uint8_t _ADD = _core_types.ADD
cdef uint8_t _FRESH_PUT = _core_types.FRESH_PUT
cdef uint8_t _PUT = _core_types.PUT
cdef uint8_t _TOUCH = _core_types.TOUCH

cdef enum:
    MESSAGES_MAX = 16
    PLACE_BYTES = 10
    # A kind and the lengths of a key and a value.
    WRITE_HEAD_BYTES = 9
    DELTA_BYTES = 8
    # Where a record has its id and its digest.
    ID_AT = 2
    DIGEST_AT = 26

cdef struct Draft:
    long entry
    uint8_t[ID_BYTES] identity
    uint8_t[DIGEST_BYTES] digest
    uint8_t[PLACE_BYTES] place
    Message message
    Py_ssize_t record_size

# What a message of a FIFO queue has besides; borrowed like the rest of a draft.
cdef struct Filing:
    const uint8_t* group
    Py_ssize_t group_size
    const uint8_t* dedup_key
    Py_ssize_t dedup_size

cdef struct Stamps:
    const uint8_t* request
    uint64_t start_ts
    uint64_t commit_ts
    uint8_t retention


def plan_send(
    bytes request not None,
    uint64_t start_ts,
    uint64_t commit_ts,
    uint8_t retention,
    keys not None,
    str sender not None,
    bytes body not None,
):
    cdef Stamps stamps
    stamps.request = sixteen(request, "a request")
    stamps.start_ts, stamps.commit_ts, stamps.retention = start_ts, commit_ts, retention
    cdef Draft draft
    draft_message(&draft, &stamps, 0, sender, b"", body)
    digest_bodies(&draft, 1)
    return encode_sends(&stamps, keys, &draft, 1), record_of(&draft)


def plan_sends(
    bytes request not None,
    uint64_t start_ts,
    uint64_t commit_ts,
    uint8_t retention,
    keys not None,
    str sender not None,
    messages not None,
):
    cdef Stamps stamps
    stamps.request = sixteen(request, "a request")
    stamps.start_ts, stamps.commit_ts, stamps.retention = start_ts, commit_ts, retention
    # A tuple of tuples keeps what the drafts borrow, whoever runs meanwhile.
    cdef tuple rows = tuple(messages)
    cdef Py_ssize_t index, count = countable(rows)
    cdef Draft[MESSAGES_MAX] drafts
    for index in range(count):
        row = checked_row(rows, index, 3)
        draft_message(
            &drafts[index], &stamps, <object>PyTuple_GET_ITEM(row, 0), sender,
            bytes_at(row, 1), bytes_at(row, 2),
        )
    digest_bodies(drafts, count)
    return encode_sends(&stamps, keys, drafts, count), planned_sends(drafts, count, commit_ts)


def plan_bodies(
    bytes request not None,
    uint64_t start_ts,
    uint64_t commit_ts,
    uint8_t retention,
    keys not None,
    str sender not None,
    bodies not None,
):
    cdef Stamps stamps
    stamps.request = sixteen(request, "a request")
    stamps.start_ts, stamps.commit_ts, stamps.retention = start_ts, commit_ts, retention
    cdef tuple rows = tuple(bodies)
    cdef Py_ssize_t index, count = countable(rows)
    cdef Draft[MESSAGES_MAX] drafts
    for index in range(count):
        draft_message(&drafts[index], &stamps, index, sender, b"", bytes_at(rows, index))
    digest_bodies(drafts, count)
    return encode_sends(&stamps, keys, drafts, count), records_of(drafts, count)


def plan_fifo_sends(
    bytes request not None,
    uint64_t start_ts,
    uint64_t commit_ts,
    uint8_t retention,
    keys not None,
    str sender not None,
    messages not None,
):
    cdef Stamps stamps
    stamps.request = sixteen(request, "a request")
    stamps.start_ts, stamps.commit_ts, stamps.retention = start_ts, commit_ts, retention
    cdef tuple rows = tuple(messages)
    cdef Py_ssize_t index, count = countable(rows)
    cdef Draft[MESSAGES_MAX] drafts
    cdef Filing[MESSAGES_MAX] filings
    cdef bytes group
    cdef list groups = []
    for index in range(count):
        row = checked_row(rows, index, 5)
        draft_message(
            &drafts[index], &stamps, <object>PyTuple_GET_ITEM(row, 0), sender,
            bytes_at(row, 3), bytes_at(row, 4),
        )
        group = _text(<object>PyTuple_GET_ITEM(row, 1))
        groups.append(group)
        filings[index].group, filings[index].group_size = address(group), PyBytes_GET_SIZE(group)
        group = bytes_at(row, 2)
        filings[index].dedup_key = address(group)
        filings[index].dedup_size = PyBytes_GET_SIZE(group)
    digest_bodies(drafts, count)
    return encode_fifo_sends(&stamps, keys, drafts, filings, count), records_of(drafts, count)


def fill_answer(
    tuple pieces not None, str request_id not None, bytes record not None, str number not None=""
):
    cdef Py_ssize_t id_size, number_size
    cdef const char* id_text = PyUnicode_AsUTF8AndSize(request_id, &id_size)
    cdef const char* digits = PyUnicode_AsUTF8AndSize(number, &number_size)
    if PyTuple_GET_SIZE(pieces) != 5 or PyBytes_GET_SIZE(record) < MESSAGE_HEAD_BYTES:
        raise ValueError("an answer has five pieces, and a record its head")
    cdef Py_ssize_t index, size = id_size + ID_TEXT_BYTES + 2 * DIGEST_BYTES + number_size
    for index in range(5):
        size += PyBytes_GET_SIZE(bytes_at(pieces, index))
    cdef bytes result = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* at = store(store_piece(address(result), pieces, 0), id_text, id_size)
    at = store_id_text(store_piece(at, pieces, 1), address(record) + ID_AT)
    at = store_hexadecimal(store_piece(at, pieces, 2), address(record) + DIGEST_AT, DIGEST_BYTES)
    store_piece(store(store_piece(at, pieces, 3), digits, number_size), pieces, 4)
    return result


def fill_batch_answer(
    tuple pieces not None,
    str request_id not None,
    list ids not None,
    list records not None,
    list numbers not None,
):
    cdef Py_ssize_t index, id_size, number_size, count = len(ids)
    cdef const char* id_text = PyUnicode_AsUTF8AndSize(request_id, &id_size)
    if PyTuple_GET_SIZE(pieces) != 2 or len(records) != count or len(numbers) not in (0, count):
        raise ValueError("an answer has two pieces, and an entry a record")
    # Entries are divided by commas.
    cdef Py_ssize_t size = sizeof(ANSWER_START) - 1 + max(count - 1, 0) + sizeof(ANSWER_END) - 1
    for index in range(count):
        size += result_size(ids[index], records[index], numbers[index] if numbers else "")
    cdef bytes length = b"%d\r\n\r\n" % size
    size += PyBytes_GET_SIZE(bytes_at(pieces, 0)) + id_size + PyBytes_GET_SIZE(bytes_at(pieces, 1))
    cdef bytes result = PyBytes_FromStringAndSize(NULL, size + PyBytes_GET_SIZE(length))
    cdef uint8_t* at = store(store_piece(address(result), pieces, 0), id_text, id_size)
    at = store(store_piece(at, pieces, 1), address(length), PyBytes_GET_SIZE(length))
    at = store(at, ANSWER_START, sizeof(ANSWER_START) - 1)
    for index in range(count):
        if index:
            at = store(at, b",", 1)
        at = store_result(at, ids[index], records[index], numbers[index] if numbers else "")
    store(at, ANSWER_END, sizeof(ANSWER_END) - 1)
    return result


cdef Py_ssize_t result_size(bytes entry_id, bytes record, str number) except -1:
    cdef Py_ssize_t number_size
    if entry_id is None or record is None or number is None:
        raise TypeError("an entry has an id, a record and a number")
    if PyBytes_GET_SIZE(record) < MESSAGE_HEAD_BYTES:
        raise ValueError("a record has its head")
    cdef Py_ssize_t size = (
        sizeof(RESULT_ID) - 1 + PyBytes_GET_SIZE(entry_id) + sizeof(RESULT_MESSAGE) - 1
        + ID_TEXT_BYTES + sizeof(RESULT_DIGEST) - 1 + 2 * DIGEST_BYTES + sizeof(RESULT_END) - 1
    )
    PyUnicode_AsUTF8AndSize(number, &number_size)
    if number_size:
        size += sizeof(RESULT_NUMBER) - 1 + number_size
    return size


cdef uint8_t* store_result(uint8_t* at, bytes entry_id, bytes record, str number) except NULL:
    cdef Py_ssize_t number_size
    cdef const char* digits = PyUnicode_AsUTF8AndSize(number, &number_size)
    at = store(at, RESULT_ID, sizeof(RESULT_ID) - 1)
    at = store(at, address(entry_id), PyBytes_GET_SIZE(entry_id))
    at = store(at, RESULT_MESSAGE, sizeof(RESULT_MESSAGE) - 1)
    at = store_id_text(at, address(record) + ID_AT)
    at = store(at, RESULT_DIGEST, sizeof(RESULT_DIGEST) - 1)
    at = store_hexadecimal(at, address(record) + DIGEST_AT, DIGEST_BYTES)
    if number_size:
        at = store(store(at, RESULT_NUMBER, sizeof(RESULT_NUMBER) - 1), digits, number_size)
    return store(at, RESULT_END, sizeof(RESULT_END) - 1)


cdef inline uint8_t* store_piece(uint8_t* at, tuple pieces, Py_ssize_t index) noexcept:
    cdef PyObject* piece = PyTuple_GET_ITEM(pieces, index)
    return store(at, address(<bytes>piece), PyBytes_GET_SIZE(<bytes>piece))


cdef int draft_message(
    Draft* draft, const Stamps* stamps, long entry, str sender, bytes extras, bytes body
) except -1:
    cdef Message* message = &draft.message
    check_entry(entry)
    draft.entry = entry
    store_message_id(draft.identity, stamps.commit_ts, entry, stamps.request)
    store_u16(store_u64(draft.place, stamps.commit_ts), <uint16_t>entry)
    message.flags = 0
    message.identity = draft.identity
    message.sent_ms = stamps.commit_ts >> 16
    message.digest = draft.digest
    message.sender = PyUnicode_AsUTF8AndSize(sender, &message.sender_size)
    message.extras, message.extras_size = address(extras), PyBytes_GET_SIZE(extras)
    message.body, message.body_size = address(body), PyBytes_GET_SIZE(body)
    draft.record_size = message_size(message)
    return 0


cdef int digest_bodies(Draft* drafts, Py_ssize_t count) except -1:
    """What a draft lacks before it is encoded: bodies that come together are hashed together."""
    cdef Hashed[MESSAGES_MAX] hashed
    cdef Py_ssize_t index
    for index in range(count):
        hashed[index].body = drafts[index].message.body
        hashed[index].size = drafts[index].message.body_size
        hashed[index].digest = drafts[index].digest
    return md5_each(hashed, count)


cdef bytes encode_sends(const Stamps* stamps, keys, const Draft* drafts, Py_ssize_t count):
    cdef bytes generation_key, total_key, data_prefix
    generation_key, total_key, data_prefix = bytes_at(keys, 0), bytes_at(keys, 1), bytes_at(keys, 2)
    cdef Py_ssize_t index, size = frame_size(generation_key, total_key)
    for index in range(count):
        size += put_size(data_prefix, &drafts[index])
    cdef bytes result = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* at = store_begin(
        address(result), stamps, mask_of(drafts, count), generation_key, <uint32_t>count + 1
    )
    for index in range(count):
        at = store_put(at, data_prefix, &drafts[index])
    at = store_total(at, total_key, count)
    assert at == address(result) + size
    return result


cdef bytes encode_fifo_sends(
    const Stamps* stamps, keys, const Draft* drafts, const Filing* filings, Py_ssize_t count
):
    cdef bytes generation_key, total_key, data_prefix, group_prefix, head_prefix
    generation_key, total_key, data_prefix = bytes_at(keys, 0), bytes_at(keys, 1), bytes_at(keys, 2)
    group_prefix, head_prefix = bytes_at(keys, 3), bytes_at(keys, 4)
    cdef Py_ssize_t index, size = frame_size(generation_key, total_key)
    for index in range(count):
        size += put_size(data_prefix, &drafts[index])
        size += filing_size(group_prefix, head_prefix, &filings[index])
    cdef bytes result = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* at = store_begin(
        address(result), stamps, mask_of(drafts, count), generation_key, 4 * <uint32_t>count + 1
    )
    for index in range(count):
        at = store_put(at, data_prefix, &drafts[index])
        at = store_filing(at, group_prefix, head_prefix, &drafts[index], &filings[index])
    at = store_total(at, total_key, count)
    assert at == address(result) + size
    return result


cdef inline Py_ssize_t frame_size(bytes generation_key, bytes total_key) except -1:
    """Of a transaction without its messages."""
    return (
        TRANSACTION_HEAD_BYTES + 4 + fitting(PyBytes_GET_SIZE(generation_key))
        + WRITE_HEAD_BYTES + fitting(PyBytes_GET_SIZE(total_key)) + DELTA_BYTES
    )


cdef inline Py_ssize_t put_size(bytes data_prefix, const Draft* draft) except -1:
    return (
        WRITE_HEAD_BYTES + fitting(PyBytes_GET_SIZE(data_prefix) + PLACE_BYTES)
        + fitting(draft.record_size)
    )


cdef inline Py_ssize_t filing_size(
    bytes group_prefix, bytes head_prefix, const Filing* filing
) except -1:
    return (
        WRITE_HEAD_BYTES
        + fitting(PyBytes_GET_SIZE(group_prefix) + filing.group_size + PLACE_BYTES)
        + WRITE_HEAD_BYTES + fitting(PyBytes_GET_SIZE(head_prefix) + filing.group_size)
        + WRITE_HEAD_BYTES + fitting(filing.dedup_size) + ID_BYTES + PLACE_BYTES
    )


cdef inline Py_ssize_t fitting(Py_ssize_t size) except -1:
    if size > UINT32_MAX:
        raise OverflowError("a key or value is too long for its length field")
    return size


cdef inline uint8_t* store_begin(
    uint8_t* at, const Stamps* stamps, uint16_t mask, bytes generation_key, uint32_t writes
) noexcept:
    at = store_transaction_head(
        at, stamps.request, stamps.start_ts, stamps.commit_ts, stamps.retention, mask, 1, writes
    )
    return store_field(at, address(generation_key), PyBytes_GET_SIZE(generation_key))


cdef inline uint8_t* store_put(uint8_t* at, bytes data_prefix, const Draft* draft) noexcept:
    at[0] = _FRESH_PUT
    at = store_place(at + 1, data_prefix, NULL, 0, draft)
    return store_message(store_u32(at, <uint32_t>draft.record_size), &draft.message)


cdef inline uint8_t* store_filing(
    uint8_t* at, bytes group_prefix, bytes head_prefix, const Draft* draft, const Filing* filing
) noexcept:
    """Where the message is in its group, that the group is touched, and its deduplication row."""
    cdef Py_ssize_t head_size = PyBytes_GET_SIZE(head_prefix)
    at[0] = _FRESH_PUT
    at = store_place(at + 1, group_prefix, filing.group, filing.group_size, draft)
    at = store_u32(at, 0)
    at[0] = _TOUCH
    at = store_u32(at + 1, <uint32_t>(head_size + filing.group_size))
    at = store(store(at, address(head_prefix), head_size), filing.group, filing.group_size)
    at = store_u32(at, 0)
    at[0] = _PUT
    at = store_field(at + 1, filing.dedup_key, filing.dedup_size)
    at = store(store_u32(at, ID_BYTES + PLACE_BYTES), draft.identity, ID_BYTES)
    return store(at, draft.place, PLACE_BYTES)


cdef inline uint8_t* store_place(
    uint8_t* at, bytes prefix, const uint8_t* group, Py_ssize_t group_size, const Draft* draft
) noexcept:
    """A key that ends with the position of the message."""
    cdef Py_ssize_t prefix_size = PyBytes_GET_SIZE(prefix)
    at = store_u32(at, <uint32_t>(prefix_size + group_size + PLACE_BYTES))
    at = store(at, address(prefix), prefix_size)
    if group_size:
        at = store(at, group, group_size)
    return store(at, draft.place, PLACE_BYTES)


cdef inline uint8_t* store_total(uint8_t* at, bytes total_key, Py_ssize_t count) noexcept:
    at[0] = _ADD
    at = store_field(at + 1, address(total_key), PyBytes_GET_SIZE(total_key))
    return store_u64(store_u32(at, DELTA_BYTES), <uint64_t>count)


cdef inline uint16_t mask_of(const Draft* drafts, Py_ssize_t count) noexcept:
    cdef Py_ssize_t index
    cdef uint16_t mask = 0
    for index in range(count):
        mask |= <uint16_t>(1 << drafts[index].entry)
    return mask


cdef list planned_sends(const Draft* drafts, Py_ssize_t count, uint64_t commit_ts):
    cdef Py_ssize_t index
    cdef object position = (<object>commit_ts) << 16
    cdef list planned = []
    for index in range(count):
        planned.append(planned_send(&drafts[index], position + drafts[index].entry))
    return planned


cdef list records_of(const Draft* drafts, Py_ssize_t count):
    cdef Py_ssize_t index
    cdef list records = []
    for index in range(count):
        records.append(record_of(&drafts[index]))
    return records


cdef bytes record_of(const Draft* draft):
    cdef bytes record = PyBytes_FromStringAndSize(NULL, draft.record_size)
    store_message(address(record), &draft.message)
    return record


cdef object planned_send(const Draft* draft, object position):
    cdef uint8_t[ID_TEXT_BYTES] letters
    store_id_text(letters, draft.identity)
    cdef str message_id = PyUnicode_DecodeASCII(<char*>letters, ID_TEXT_BYTES, NULL)
    store_hexadecimal(letters, draft.digest, DIGEST_BYTES)
    cdef str body_md5 = PyUnicode_DecodeASCII(<char*>letters, 2 * DIGEST_BYTES, NULL)
    return PyTuple_Type.tp_new(
        _PlannedSend, ((message_id, body_md5, position, record_of(draft)),), NULL
    )


cdef Py_ssize_t countable(tuple rows) except -1:
    if len(rows) > MESSAGES_MAX:
        raise ValueError("a transaction creates at most 16 messages")
    return len(rows)


cdef inline object checked_row(tuple rows, Py_ssize_t index, Py_ssize_t size):
    cdef object row = rows[index]
    if not PyTuple_Check(row) or PyTuple_GET_SIZE(row) != size:
        raise TypeError("a message is a tuple")
    return row


cdef inline bytes bytes_at(object row, Py_ssize_t index):
    """Of a named tuple too, which Cython would iterate over."""
    if not PyTuple_Check(row) or index >= PyTuple_GET_SIZE(row):
        raise TypeError("too few parts")
    cdef object part = <object>PyTuple_GET_ITEM(row, index)
    if type(part) is not bytes:
        raise TypeError("keys and values are bytes")
    return <bytes>part
