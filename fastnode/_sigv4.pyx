# cython: language_level=3
"""Whose request it is, in the usual case, in C: one text on the stack, four hashes, no objects but
the name of the proof. The twin `_sigv4_ref.py` documents what is done; tests hold the two equal.

Of the signing key only the states are kept that its HMAC begins with.
"""

cimport cython
from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset

from fastnode._http cimport Request
from fastnode._sha256 cimport (
    BLOCK_BYTES,
    DIGEST_BYTES,
    State,
    begin,
    hash_bytes,
    hash_rest,
    hash_whole,
)

from fastnode import _sigv4_ref as _ref
from fastnode import config as _config

cdef enum:
    INNER_PAD = 0x36
    OUTER_PAD = 0x5C
    DAY_BYTES = 8
    DATE_BYTES = 16
    MARK_BYTES = 10
    TO_SIGN_BYTES_MAX = 17 + DATE_BYTES + 1 + SCOPE_BYTES_MAX + 1 + DIGITS
    TAB = 9
    LINE_FEED = 10
    SPACE = 32
    DASH = 45
    DOT = 46
    SLASH = 47
    ZERO = 48
    LETTER_T = 84
    LETTER_Z = 90
    UNDERSCORE = 95
    TILDE = 126
    # From the digit that would follow 9 to the letter a.
    TO_LETTERS = 39

assert TEXT_BYTES_MAX == _ref.TEXT_BYTES_MAX
assert SCOPE_BYTES_MAX == _ref.SCOPE_BYTES_MAX

cdef int64_t _SKEW_SECONDS = _config.SIGNATURE_SKEW_SECONDS
cdef bytes _AUTHORIZATION = b"authorization"
cdef bytes _DATE = b"x-amz-date"
cdef bytes _PAYLOAD = b"x-amz-content-sha256"
cdef bytes _TO_SIGN = b"AWS4-HMAC-SHA256\n"


# --- proofs --------------------------------------------------------------------------------------


@cython.final
@cython.auto_pickle(False)
cdef class Proof:
    cdef readonly object whose
    # After one block each, which is made of the key.
    cdef State _inner
    cdef State _outer
    cdef bytes _scope
    cdef int64_t _midnight
    cdef tuple _names
    # What stands before and after the values: each name with its colon, all names.
    cdef tuple _labels
    cdef bytes _ending

    def __cinit__(
        self,
        bytes signing_key not None,
        bytes scope not None,
        int64_t midnight,
        tuple names not None,
        whose,
    ):
        if len(signing_key) != DIGEST_BYTES or not DAY_BYTES <= len(scope) <= SCOPE_BYTES_MAX:
            raise ValueError("this is no signing key, or no scope")
        begin_hmac(&self._inner, signing_key, INNER_PAD)
        begin_hmac(&self._outer, signing_key, OUTER_PAD)
        self._scope = scope
        self._midnight = midnight
        self._names = names
        self._labels = tuple([<bytes?>name + b":" for name in names])
        self._ending = b"\n" + b";".join(names) + b"\n"
        self.whose = whose


def prove(dict proofs not None, Request request not None, int64_t now):
    cdef Value authorization = found_in(request, _AUTHORIZATION)
    cdef Value date = found_in(request, _DATE)
    if authorization.at == NULL or date.at == NULL or not is_plain_path(request.target):
        return None
    cdef const uint8_t* signature = signature_of(&authorization)
    if signature == NULL:
        return None
    cdef PyObject* known = PyDict_GetItemWithError(proofs, start_of(&authorization))
    if known == NULL:
        return None
    cdef Proof proof = <Proof?><object>known
    if not is_fresh(proof, &date, now):
        return None
    cdef Text text
    text.size = 0
    if not put_canonical(&text, proof, request):
        return None
    return proof.whose if is_signed(proof, date.at, &text, signature) else None


cdef int begin_hmac(State* state, bytes key, uint8_t pad) except -1:
    """RFC 2104: the first block of either hash."""
    cdef uint8_t[BLOCK_BYTES] block
    cdef const uint8_t* octets = <const uint8_t*>PyBytes_AS_STRING(key)
    cdef Py_ssize_t index
    memset(block, pad, BLOCK_BYTES)
    for index in range(PyBytes_GET_SIZE(key)):
        block[index] ^= octets[index]
    begin(state, block)
    return 0


# Where the value of a header is; NULL if there is none.
cdef struct Value:
    const uint8_t* at
    Py_ssize_t size


cdef inline Value found_in(Request request, bytes name) except *:
    cdef Value value
    value.size = 0
    value.at = request.find(name, &value.size)
    return value


cdef inline const uint8_t* signature_of(const Value* authorization) noexcept:
    """Where its digits begin; NULL if they are not announced, or other than there must be."""
    if authorization.size < MARK_BYTES + DIGITS:
        return NULL
    cdef const uint8_t* at = authorization.at + authorization.size - DIGITS
    return at if memcmp(at - MARK_BYTES, b"Signature=", MARK_BYTES) == 0 else NULL


cdef inline bytes start_of(const Value* authorization):
    """What stands before the signature, which is there."""
    cdef Py_ssize_t size = authorization.size - MARK_BYTES - DIGITS
    return PyBytes_FromStringAndSize(<const char*>authorization.at, size)


cdef inline bint is_plain_path(bytes target) noexcept:
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(target)
    cdef Py_ssize_t index, size = PyBytes_GET_SIZE(target)
    if size == 0 or at[0] != SLASH:
        return False
    for index in range(1, size):
        if at[index] == SLASH or at[index] == DOT:
            if at[index - 1] == SLASH:
                return False
        elif not is_unreserved(at[index]):
            return False
    return True


cdef inline bint is_unreserved(uint8_t octet) noexcept nogil:
    return (
        c"a" <= octet <= c"z" or c"A" <= octet <= c"Z" or is_digit(octet)
        or octet == DASH or octet == UNDERSCORE or octet == TILDE
    )


cdef inline bint is_digit(uint8_t octet) noexcept nogil:
    return ZERO <= octet < ZERO + 10


cdef inline bint is_fresh(Proof proof, const Value* date, int64_t now) noexcept:
    """Whether it is a time of the proof's day, near enough."""
    cdef const uint8_t* at = date.at
    if date.size != DATE_BYTES or at[8] != LETTER_T or at[15] != LETTER_Z:
        return False
    if memcmp(at, PyBytes_AS_STRING(proof._scope), DAY_BYTES) != 0:
        return False
    cdef int hours = two_digits(at + 9), minutes = two_digits(at + 11), seconds = two_digits(at + 13)
    if not (0 <= hours < 24 and 0 <= minutes < 60 and 0 <= seconds < 60):
        return False
    cdef int64_t signed_at = proof._midnight + hours * 3600 + minutes * 60 + seconds
    return now - _SKEW_SECONDS <= signed_at <= now + _SKEW_SECONDS


cdef inline int two_digits(const uint8_t* at) noexcept nogil:
    """-1 if they are not."""
    if not (is_digit(at[0]) and is_digit(at[1])):
        return -1
    return (at[0] - ZERO) * 10 + (at[1] - ZERO)


# --- what is signed ------------------------------------------------------------------------------


cdef bint put_canonical(
    Text* text, Proof proof, Request request
) except -1:
    """Whether the request is plain and has the payload that it announces."""
    cdef uint8_t[DIGITS] payload
    cdef Py_ssize_t index
    cdef Value value
    if not (append_bytes(text, request.method) and append(text, b"\n", 1)):
        return False
    if not (append_bytes(text, request.target) and append(text, b"\n\n", 2)):
        return False
    for index in range(len(proof._names)):
        value = found_in(request, <bytes>proof._names[index])
        if value.at == NULL or not append_bytes(text, <bytes>proof._labels[index]):
            return False
        if not (append(text, value.at, value.size) and append(text, b"\n", 1)):
            return False
    if not append_bytes(text, proof._ending) or has_blanks(text):
        return False
    put_payload(payload, request.body)
    return is_as_announced(request, payload) and append(text, payload, DIGITS)


cdef bint append(Text* text, const uint8_t* octets, Py_ssize_t size) noexcept nogil:
    """False if there is no room."""
    if size > TEXT_BYTES_MAX - text.size:
        return False
    memcpy(text.octets + text.size, octets, size)
    text.size += size
    return True


cdef inline bint append_bytes(Text* text, bytes octets) noexcept:
    return append(text, <const uint8_t*>PyBytes_AS_STRING(octets), PyBytes_GET_SIZE(octets))


cdef inline bint has_blanks(Text* text) noexcept nogil:
    """Whether there is a tab or a run of spaces. The text ends with a line."""
    cdef const uint8_t* stop = text.octets + text.size
    cdef const uint8_t* at = text.octets
    if memchr(at, TAB, text.size) != NULL:
        return True
    while True:
        at = <const uint8_t*>memchr(at, SPACE, stop - at)
        if at == NULL:
            return False
        at += 1
        if at[0] == SPACE:
            return True


cdef int put_payload(uint8_t* digits, bytes body) except -1:
    cdef uint8_t[DIGEST_BYTES] digest
    hash_bytes(body, digest)
    put_digits(digits, digest)
    return 0


cdef inline bint is_as_announced(Request request, const uint8_t* payload) except -1:
    cdef Value announced = found_in(request, _PAYLOAD)
    if announced.at == NULL:
        return True
    return announced.size == DIGITS and memcmp(announced.at, payload, DIGITS) == 0


cdef inline void put_digits(uint8_t* digits, const uint8_t* digest) noexcept nogil:
    cdef int index
    for index in range(DIGEST_BYTES):
        digits[2 * index] = digit(digest[index] >> 4)
        digits[2 * index + 1] = digit(digest[index] & 15)


cdef inline uint8_t digit(uint8_t value) noexcept nogil:
    """Without a table or a branch, which take a time that depends on the value."""
    return ZERO + value + TO_LETTERS * (value > 9)


cdef bint is_signed(
    Proof proof, const uint8_t* date, Text* text, const uint8_t* signature
) noexcept:
    """HMAC (RFC 2104) of what the canonical request comes down to, against the given digits."""
    cdef uint8_t[TO_SIGN_BYTES_MAX] to_sign
    cdef uint8_t[DIGEST_BYTES] digest
    cdef uint8_t[DIGITS] digits
    cdef State state = proof._inner
    cdef Py_ssize_t scope_bytes = PyBytes_GET_SIZE(proof._scope)
    cdef uint8_t* at = to_sign
    memcpy(at, PyBytes_AS_STRING(_TO_SIGN), 17)
    memcpy(at + 17, date, DATE_BYTES)
    at[17 + DATE_BYTES] = LINE_FEED
    at += 17 + DATE_BYTES + 1
    memcpy(at, PyBytes_AS_STRING(proof._scope), scope_bytes)
    at[scope_bytes] = LINE_FEED
    at += scope_bytes + 1
    hash_whole(text.octets, text.size, digest)
    put_digits(at, digest)
    hash_rest(&state, BLOCK_BYTES, to_sign, at + DIGITS - to_sign, digest)
    state = proof._outer
    hash_rest(&state, BLOCK_BYTES, digest, DIGEST_BYTES, digest)
    put_digits(digits, digest)
    return are_equal(digits, signature)


cdef inline bint are_equal(const uint8_t* ours, const uint8_t* theirs) noexcept nogil:
    """In a time that does not tell where they differ."""
    cdef uint64_t[8] left
    cdef uint64_t[8] right
    cdef volatile uint64_t difference = 0
    cdef int index
    memcpy(left, ours, DIGITS)
    memcpy(right, theirs, DIGITS)
    for index in range(8):
        difference |= left[index] ^ right[index]
    return difference == 0
