# cython: language_level=3
"""Plain sends out of their JSON, in C: one pass over the bytes, no object but what a send keeps.

What clients write all day is read here: members of known names, each once, their values strings. A
body may hold escapes and any characters; ids that do, and everything else that is rare, are handed
to the twin `_plain_ref.py`, whose word is final. So the rule for this file is to accept nothing
that the twin would not accept with the same result. Tests hold the two equal.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcmp

from fastnode._keys cimport load_u64_little

from msgspec import DecodeError
from msgspec.json import Decoder

from fastnode import _plain_ref as _ref
from fastnode import config as _config
from fastnode._plan import encode_text as _encode_text

cdef extern from *:
    int __builtin_ctzll(unsigned long long number) noexcept nogil

cdef object _rare_send = _ref.read_send
cdef object _rare_batch = _ref.read_batch
cdef object _decode_text = Decoder(str).decode

cdef enum:
    ENTRIES_MAX = 10

assert ENTRIES_MAX == _config.BATCH_ENTRIES_MAX

# The members of a message, and those of a batch besides.
cdef enum:
    QUEUE_URL
    ENTRY_ID
    BODY
    GROUP
    DEDUPLICATION
    MEMBERS
    ENTRIES = MEMBERS
    UNKNOWN

cdef enum:
    SEND_MEMBERS = 1 << QUEUE_URL | 1 << BODY | 1 << GROUP | 1 << DEDUPLICATION
    ENTRY_MEMBERS = 1 << ENTRY_ID | 1 << BODY | 1 << GROUP | 1 << DEDUPLICATION

# What became of reading: a question for the twin, or the twin would say no, or all is read.
cdef enum Reading:
    RARE
    NOT_PLAIN
    PLAIN

# Which members there are, a bit for each, and what they are.
cdef struct Sent:
    unsigned int found
    Text[MEMBERS] members


def read_send(bytes body not None):
    cdef Scan scan = scan_of(body)
    cdef Sent sent
    cdef Reading reading = take_message(&scan, &sent, SEND_MEMBERS)
    if reading == PLAIN and not (sent.found >> QUEUE_URL & 1 and is_at_end(&scan)):
        reading = RARE
    if reading != PLAIN:
        return None if reading == NOT_PLAIN else _rare_send(body)
    cdef bytes message = body_of(&sent.members[BODY])
    if message is None:
        return None
    return text_of(&sent, QUEUE_URL), message, text_of(&sent, GROUP), text_of(&sent, DEDUPLICATION)


def read_batch(bytes body not None):
    cdef Scan scan = scan_of(body)
    cdef Sent batch
    cdef Sent[ENTRIES_MAX] entries
    cdef Py_ssize_t index, count = 0
    cdef Reading reading = take_batch(&scan, &batch, entries, &count)
    if reading != PLAIN:
        return None if reading == NOT_PLAIN else _rare_batch(body)
    cdef list ids = [], bodies = [], filed = []
    cdef bytes message
    for index in range(count):
        message = body_of(&entries[index].members[BODY])
        if message is None:
            return None
        bodies.append(message)
        ids.append(bytes_of(&entries[index].members[ENTRY_ID]))
        if entries[index].found >> GROUP & 1:
            filed.append((text_of(&entries[index], GROUP), text_of(&entries[index], DEDUPLICATION)))
    return text_of(&batch, QUEUE_URL), ids, bodies, filed


cdef Reading take_batch(Scan* scan, Sent* batch, Sent* entries, Py_ssize_t* count) noexcept:
    cdef Text name
    cdef int which
    cdef Reading reading
    batch.found = 0
    if not take(scan, OPENING_BRACE):
        return RARE
    while True:
        if not take_text(scan, &name) or not take(scan, COLON):
            return RARE
        which = member_of(&name)
        if which == UNKNOWN:
            return NOT_PLAIN if name.is_simple else RARE
        if batch.found >> which & 1:
            return RARE
        batch.found |= 1 << which
        if which == ENTRIES:
            reading = take_entries(scan, entries, count)
            if reading != PLAIN:
                return reading
        elif which != QUEUE_URL or not take_simple(scan, &batch.members[QUEUE_URL]):
            return RARE
        if not take(scan, COMMA):
            break
    if batch.found != (1 << QUEUE_URL | 1 << ENTRIES) or not take(scan, CLOSING_BRACE):
        return RARE
    return PLAIN if is_at_end(scan) and are_alike(entries, count[0]) else RARE


cdef Reading take_entries(Scan* scan, Sent* entries, Py_ssize_t* count) noexcept:
    cdef Reading reading
    if not take(scan, OPENING_BRACKET):
        return RARE
    while count[0] < ENTRIES_MAX:
        reading = take_message(scan, &entries[count[0]], ENTRY_MEMBERS)
        if reading != PLAIN:
            return reading
        count[0] += 1
        if not take(scan, COMMA):
            return PLAIN if take(scan, CLOSING_BRACKET) else RARE
    return RARE


cdef Reading take_message(Scan* scan, Sent* sent, unsigned int wanted) noexcept:
    """An object whose members are strings."""
    cdef Text name
    cdef int which
    sent.found = 0
    if not take(scan, OPENING_BRACE):
        return RARE
    while True:
        if not take_text(scan, &name) or not take(scan, COLON):
            return RARE
        which = member_of(&name)
        if which == UNKNOWN:
            return NOT_PLAIN if name.is_simple else RARE
        if not (wanted & ~sent.found) >> which & 1 or not take_text(scan, &sent.members[which]):
            return RARE
        if which != BODY and not sent.members[which].is_simple:
            return RARE
        sent.found |= 1 << which
        if not take(scan, COMMA):
            break
    if not take(scan, CLOSING_BRACE) or not sent.found >> BODY & 1:
        return RARE
    # A deduplication id goes with a group.
    return RARE if sent.found >> DEDUPLICATION & 1 and not sent.found >> GROUP & 1 else PLAIN


cdef bint are_alike(const Sent* entries, Py_ssize_t count) noexcept:
    """Ids that may be ids, no two of them the same; groups for all or for none."""
    cdef Py_ssize_t index, other
    cdef const Text* one
    for index in range(count):
        one = &entries[index].members[ENTRY_ID]
        if not entries[index].found >> ENTRY_ID & 1 or not is_entry_id(one):
            return False
        if (entries[index].found ^ entries[0].found) >> GROUP & 1:
            return False
        for other in range(index):
            if equals(one, &entries[other].members[ENTRY_ID]):
                return False
    return True


cdef inline int member_of(const Text* name) noexcept:
    # No two of these names have the same length.
    if name.size == 2 and memcmp(name.at, b"Id", 2) == 0:
        return ENTRY_ID
    if name.size == 7 and memcmp(name.at, b"Entries", 7) == 0:
        return ENTRIES
    if name.size == 8 and memcmp(name.at, b"QueueUrl", 8) == 0:
        return QUEUE_URL
    if name.size == 11 and memcmp(name.at, b"MessageBody", 11) == 0:
        return BODY
    if name.size == 14 and memcmp(name.at, b"MessageGroupId", 14) == 0:
        return GROUP
    if name.size == 22 and memcmp(name.at, b"MessageDeduplicationId", 22) == 0:
        return DEDUPLICATION
    return UNKNOWN


# --- objects --------------------------------------------------------------------------------------


cdef object text_of(const Sent* sent, int which):
    if not sent.found >> which & 1:
        return None
    return PyUnicode_DecodeASCII(
        <const char*>sent.members[which].at, sent.members[which].size, NULL
    )


cdef bytes body_of(const Text* one):
    """None if it is empty, or has characters that no body may have."""
    if one.is_simple:
        return bytes_of(one) if one.size else None
    try:
        text = _decode_text(PyBytes_FromStringAndSize(<const char*>one.at - 1, one.size + 2))
    except (DecodeError, UnicodeDecodeError):
        return None
    return _encode_text(text) or None


# --- bytes ----------------------------------------------------------------------------------------


cdef bint take_text(Scan* scan, Text* one) noexcept:
    """A string, of which the decoder of texts has to judge escapes and what is no ASCII."""
    cdef uint64_t specials
    cdef const uint8_t* at
    if not take(scan, QUOTE):
        return False
    at = one.at = scan.at
    one.is_simple = True
    while at < scan.stop:
        if scan.stop - at >= 8:
            specials = special_letters(load_u64_little(at))
            if specials == 0:
                at += 8
                continue
            at += __builtin_ctzll(specials) >> 3
        if at[0] == QUOTE:
            one.size = at - one.at
            scan.at = at + 1
            return True
        if at[0] < SPACE:
            return False
        if at[0] == BACKSLASH:
            at += 1
            one.is_simple = False
        elif at[0] >= 0x80:
            one.is_simple = False
        at += 1
    return False


cdef inline uint64_t special_letters(uint64_t word) noexcept:
    """A bit for each byte that is below 0x20, above 0x7F, a quote or a backslash. The borrow may
    accuse an innocent neighbour above one of these, so only the lowest bit is to be believed.
    """
    cdef uint64_t ones = 0x0101010101010101
    cdef uint64_t tops = 0x8080808080808080
    cdef uint64_t quotes = word ^ (ones * QUOTE)
    cdef uint64_t backslashes = word ^ (ones * BACKSLASH)
    return (
        word | (word - ones * 0x20) | ((quotes - ones) & ~quotes)
        | ((backslashes - ones) & ~backslashes)
    ) & tops
