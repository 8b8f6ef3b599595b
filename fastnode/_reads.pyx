# cython: language_level=3
"""Plain receives and deletes out of their JSON, in C: one pass over the bytes, no object but what is
needed to do them.

Members of known names are read here, each once, their values simple strings or numbers without
sign, fraction and exponent. Everything else is rare and handed to the twin `_reads_ref.py`, whose
word is final. So the rule for this file is to accept nothing that the twin would not accept with
the same result. Tests hold the two equal.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport uint8_t
from libc.string cimport memcmp

from fastnode._keys cimport address, store
from fastnode._plain cimport (
    CLOSING_BRACE,
    CLOSING_BRACKET,
    COLON,
    COMMA,
    OPENING_BRACE,
    OPENING_BRACKET,
    Scan,
    Text,
    bytes_of,
    equals,
    is_at_end,
    is_entry_id,
    scan_of,
    skip_space,
    take,
    take_simple,
)

from fastnode import _reads_ref as _ref
from fastnode import config as _config

cdef object _rare_delete = _ref.read_delete
cdef object _rare_batch = _ref.read_delete_batch
cdef object _rare_receive = _ref.read_receive
cdef long _MESSAGES_MAX = _config.RECEIVE_MESSAGES_MAX
cdef long _VISIBILITY_MAX = _config.VISIBILITY_SECONDS_MAX
cdef long _WAIT_MAX = _config.WAIT_SECONDS_MAX

cdef enum:
    ENTRIES_MAX = 10
    DIGITS_MAX = 9
    ABSENT = -1

assert ENTRIES_MAX == _config.BATCH_ENTRIES_MAX

cdef struct Delete:
    Text queue_url
    Text handle

cdef struct Entry:
    Text entry_id
    Text handle

cdef struct Batch:
    Text queue_url
    Py_ssize_t count
    Entry[ENTRIES_MAX] entries

cdef struct Receive:
    Text queue_url
    long messages
    long visibility
    long wait


def read_delete(bytes body not None):
    cdef Scan scan = scan_of(body)
    cdef Delete delete
    if not (take_pair(
        &scan, b"QueueUrl", 8, &delete.queue_url, b"ReceiptHandle", 13, &delete.handle
    ) and is_at_end(&scan)):
        return _rare_delete(body)
    return text_of(&delete.queue_url), [bytes_of(&delete.handle)], b""


def read_delete_batch(bytes body not None):
    cdef Scan scan = scan_of(body)
    cdef Batch batch
    cdef Py_ssize_t index
    if not (take_batch(&scan, &batch) and are_distinct(&batch)):
        return _rare_batch(body)
    cdef list handles = [bytes_of(&batch.entries[index].handle) for index in range(batch.count)]
    return text_of(&batch.queue_url), handles, successful(&batch)


def read_receive(bytes body not None):
    cdef Scan scan = scan_of(body)
    cdef Receive receive
    if not take_receive(&scan, &receive):
        return _rare_receive(body)
    return (
        text_of(&receive.queue_url),
        1 if receive.messages == ABSENT else receive.messages,
        None if receive.visibility == ABSENT else receive.visibility,
        None if receive.wait == ABSENT else receive.wait,
    )


# --- objects of JSON -----------------------------------------------------------------------------


cdef bint take_pair(
    Scan* scan, const char* one_name, Py_ssize_t one_size, Text* one,
    const char* other_name, Py_ssize_t other_size, Text* other
) noexcept:
    """An object with just these two members, in any order, each a string that is not empty. Their
    names differ in length.
    """
    cdef Text name
    cdef int index
    one.size = other.size = 0
    if not take(scan, OPENING_BRACE):
        return False
    for index in range(2):
        if index and not take(scan, COMMA):
            return False
        if not take_simple(scan, &name) or not take(scan, COLON):
            return False
        if is_named(&name, one_name, one_size):
            if one.size or not take_simple(scan, one):
                return False
        elif is_named(&name, other_name, other_size):
            if other.size or not take_simple(scan, other):
                return False
        else:
            return False
    return one.size > 0 and other.size > 0 and take(scan, CLOSING_BRACE)


cdef bint take_batch(Scan* scan, Batch* batch) noexcept:
    cdef Text name
    cdef int index
    batch.queue_url.size = batch.count = 0
    if not take(scan, OPENING_BRACE):
        return False
    for index in range(2):
        if index and not take(scan, COMMA):
            return False
        if not take_simple(scan, &name) or not take(scan, COLON):
            return False
        if is_named(&name, b"QueueUrl", 8):
            if batch.queue_url.size or not take_simple(scan, &batch.queue_url):
                return False
        elif is_named(&name, b"Entries", 7):
            if batch.count or not take_entries(scan, batch):
                return False
        else:
            return False
    if batch.queue_url.size == 0 or batch.count == 0:
        return False
    return take(scan, CLOSING_BRACE) and is_at_end(scan)


cdef bint take_entries(Scan* scan, Batch* batch) noexcept:
    cdef Entry* entry
    if not take(scan, OPENING_BRACKET):
        return False
    while batch.count < ENTRIES_MAX:
        entry = &batch.entries[batch.count]
        if not take_pair(
            scan, b"Id", 2, &entry.entry_id, b"ReceiptHandle", 13, &entry.handle
        ):
            return False
        batch.count += 1
        if not take(scan, COMMA):
            return take(scan, CLOSING_BRACKET)
    return False


cdef bint are_distinct(const Batch* batch) noexcept:
    """Ids that may be ids, no two of them the same."""
    cdef Py_ssize_t index, other
    for index in range(batch.count):
        if not is_entry_id(&batch.entries[index].entry_id):
            return False
        for other in range(index):
            if equals(&batch.entries[index].entry_id, &batch.entries[other].entry_id):
                return False
    return True


cdef bint take_receive(Scan* scan, Receive* receive) noexcept:
    cdef Text name
    receive.queue_url.size = 0
    receive.messages = receive.visibility = receive.wait = ABSENT
    if not take(scan, OPENING_BRACE):
        return False
    while True:
        if not take_simple(scan, &name) or not take(scan, COLON):
            return False
        if is_named(&name, b"QueueUrl", 8):
            if receive.queue_url.size or not take_simple(scan, &receive.queue_url):
                return False
        elif is_named(&name, b"MaxNumberOfMessages", 19):
            if not take_number(scan, &receive.messages, 1, _MESSAGES_MAX):
                return False
        elif is_named(&name, b"VisibilityTimeout", 17):
            if not take_number(scan, &receive.visibility, 0, _VISIBILITY_MAX):
                return False
        elif is_named(&name, b"WaitTimeSeconds", 15):
            if not take_number(scan, &receive.wait, 0, _WAIT_MAX):
                return False
        else:
            return False
        if not take(scan, COMMA):
            break
    return receive.queue_url.size > 0 and take(scan, CLOSING_BRACE) and is_at_end(scan)


cdef bint take_number(Scan* scan, long* number, long low, long high) noexcept:
    """Within these bounds, and the first one of its name. What follows it is for others to see."""
    cdef const uint8_t* begin
    cdef long found = 0
    if number[0] != ABSENT:
        return False
    skip_space(scan)
    begin = scan.at
    while scan.at < scan.stop and 48 <= scan.at[0] <= 57 and scan.at - begin < DIGITS_MAX:
        found = 10 * found + (scan.at[0] - 48)
        scan.at += 1
    # A number begins with a zero only if it is zero.
    if scan.at == begin or (begin[0] == 48 and scan.at - begin > 1):
        return False
    number[0] = found
    return low <= found <= high


cdef inline bint is_named(const Text* name, const char* wanted, Py_ssize_t size) noexcept:
    return name.size == size and memcmp(name.at, wanted, size) == 0


# --- objects of Python ----------------------------------------------------------------------------


cdef inline str text_of(const Text* one):
    return PyUnicode_DecodeASCII(<const char*>one.at, one.size, NULL)


cdef bytes _BEGIN = b'{"Successful":[{"Id":"'
cdef bytes _BETWEEN = b'"},{"Id":"'
cdef bytes _END = b'"}]}'


cdef bytes successful(const Batch* batch):
    cdef Py_ssize_t index, size = PyBytes_GET_SIZE(_BEGIN) + PyBytes_GET_SIZE(_END)
    cdef const Text* one
    size += (batch.count - 1) * PyBytes_GET_SIZE(_BETWEEN)
    for index in range(batch.count):
        size += batch.entries[index].entry_id.size
    cdef bytes answer = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* at = store(address(answer), address(_BEGIN), PyBytes_GET_SIZE(_BEGIN))
    for index in range(batch.count):
        if index:
            at = store(at, address(_BETWEEN), PyBytes_GET_SIZE(_BETWEEN))
        one = &batch.entries[index].entry_id
        at = store(at, one.at, one.size)
    at = store(at, address(_END), PyBytes_GET_SIZE(_END))
    assert at == address(answer) + size
    return answer
