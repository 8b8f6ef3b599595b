# cython: language_level=3
"""Whose request it is, in the usual case, in C: one text on the stack, four hashes, no objects but
the name of the proof. The twin `_sigv4_ref.py` documents what is done; tests hold the two equal.

SHA-256 is that of FIPS 180-4, by the instructions that x86 processors have for it or without them.
Of the signing key only the states are kept that its HMAC begins with. Long bodies are left to
hashlib, which lets other threads run meanwhile.
"""

from hashlib import sha256 as _sha256

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

from fastnode import _sigv4_ref as _ref
from fastnode import config as _config

cdef enum:
    WORDS = 16  # of a block
    LENGTH_BYTES = 8  # at the end of the last block
    END_OF_TEXT = 0x80
    INNER_PAD = 0x36
    OUTER_PAD = 0x5C
    # From here on hashlib is as fast, and without the instructions sooner.
    LONG_BYTES = 4096
    LONG_BYTES_PORTABLY = 512
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
    COLON = 58
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


cdef extern from *:
    """
    #include <stdint.h>

    /* FIPS 180-4, 4.2.2: what the rounds add, and 5.3.3: the state before any block. */
    static const uint32_t ROUND_CONSTANTS[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
        0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
        0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
        0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
        0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
        0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
        0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
        0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
        0xc67178f2};
    static const uint32_t FIRST_STATE[8] = {
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

    #if defined(__x86_64__)
    #include <cpuid.h>
    #include <immintrin.h>

    static int has_sha_instructions(void) {
        unsigned a, b, c, d;
        int has_sse = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSSE3) && (c & bit_SSE4_1);
        return has_sse && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 29 & 1);
    }

    /* Four rounds on four words of the schedule. Two rounds turn ABEF and CDGH into a new ABEF,
       and the old one is the new CDGH: so after four both are in their places again. */
    #define ROUNDS(words, number) { \\
        __m128i sums = _mm_add_epi32( \\
            words, _mm_loadu_si128((const __m128i *)(ROUND_CONSTANTS + 4 * (number)))); \\
        cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sums); \\
        abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sums, 0x0e)); }
    /* The next four words of the schedule, from the sixteen before them, in place of the oldest. */
    #define NEXT(w0, w1, w2, w3) \\
        w0 = _mm_sha256msg2_epu32( \\
            _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8(w3, w2, 4)), w3)
    #define LOADED(at) \\
        _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(octets + (at))), big_endian)
    #define FOUR_ROUNDS_OF_ALL(number) \\
        NEXT(w0, w1, w2, w3); ROUNDS(w0, number) \\
        NEXT(w1, w2, w3, w0); ROUNDS(w1, number + 1) \\
        NEXT(w2, w3, w0, w1); ROUNDS(w2, number + 2) \\
        NEXT(w3, w0, w1, w2); ROUNDS(w3, number + 3)

    __attribute__((target("sha,ssse3,sse4.1")))
    static void compress_instructed(uint32_t *words, const uint8_t *octets, Py_ssize_t blocks) {
        const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
        const __m128i abcd = _mm_loadu_si128((const __m128i *)words);
        const __m128i efgh = _mm_loadu_si128((const __m128i *)(words + 4));
        __m128i abef = _mm_shuffle_epi32(_mm_unpacklo_epi64(abcd, efgh), 0x1b);
        __m128i cdgh = _mm_shuffle_epi32(_mm_unpackhi_epi64(abcd, efgh), 0x1b);
        for (; blocks > 0; blocks--, octets += 64) {
            const __m128i abef_before = abef, cdgh_before = cdgh;
            __m128i w0 = LOADED(0), w1 = LOADED(16), w2 = LOADED(32), w3 = LOADED(48);
            ROUNDS(w0, 0) ROUNDS(w1, 1) ROUNDS(w2, 2) ROUNDS(w3, 3)
            FOUR_ROUNDS_OF_ALL(4)
            FOUR_ROUNDS_OF_ALL(8)
            FOUR_ROUNDS_OF_ALL(12)
            abef = _mm_add_epi32(abef, abef_before);
            cdgh = _mm_add_epi32(cdgh, cdgh_before);
        }
        const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), hgdc = _mm_shuffle_epi32(cdgh, 0x1b);
        _mm_storeu_si128((__m128i *)words, _mm_unpacklo_epi64(feba, hgdc));
        _mm_storeu_si128((__m128i *)(words + 4), _mm_unpackhi_epi64(feba, hgdc));
    }
    #else
    static int has_sha_instructions(void) { return 0; }
    static void compress_instructed(uint32_t *words, const uint8_t *octets, Py_ssize_t blocks) {}
    #endif
    """
    const uint32_t[64] ROUND_CONSTANTS
    const uint32_t[8] FIRST_STATE
    bint has_sha_instructions()
    void compress_instructed(uint32_t* words, const uint8_t* octets, Py_ssize_t blocks) noexcept nogil


# --- SHA-256 -------------------------------------------------------------------------------------


cdef void compress_by_instructions(
    State* state, const uint8_t* octets, Py_ssize_t blocks
) noexcept nogil:
    compress_instructed(state.words, octets, blocks)


cdef void compress_portably(State* state, const uint8_t* octets, Py_ssize_t blocks) noexcept nogil:
    cdef Py_ssize_t block
    for block in range(blocks):
        compress_one(state.words, octets + block * BLOCK_BYTES)


cdef inline void compress_one(uint32_t* words, const uint8_t* octets) noexcept nogil:
    """The names are those of FIPS 180-4, 6.2.2."""
    cdef uint32_t[64] w
    cdef uint32_t first, second
    cdef uint32_t a = words[0], b = words[1], c = words[2], d = words[3]
    cdef uint32_t e = words[4], f = words[5], g = words[6], h = words[7]
    cdef int t
    for t in range(WORDS):
        w[t] = big_endian(octets + 4 * t)
    for t in range(WORDS, 64):
        first = rotated(w[t - 15], 7) ^ rotated(w[t - 15], 18) ^ (w[t - 15] >> 3)
        second = rotated(w[t - 2], 17) ^ rotated(w[t - 2], 19) ^ (w[t - 2] >> 10)
        w[t] = w[t - 16] + first + w[t - 7] + second
    for t in range(64):
        first = h + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + ((e & f) ^ (~e & g))
        first += ROUND_CONSTANTS[t] + w[t]
        second = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))
        h, g, f, e = g, f, e, d + first
        d, c, b, a = c, b, a, first + second
    words[0] += a
    words[1] += b
    words[2] += c
    words[3] += d
    words[4] += e
    words[5] += f
    words[6] += g
    words[7] += h


cdef inline uint32_t rotated(uint32_t word, int bits) noexcept nogil:
    return (word >> bits) | (word << (32 - bits))


cdef inline uint32_t big_endian(const uint8_t* at) noexcept nogil:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline void put_word(uint8_t* at, uint32_t word) noexcept nogil:
    at[0] = <uint8_t>(word >> 24)
    at[1] = <uint8_t>(word >> 16)
    at[2] = <uint8_t>(word >> 8)
    at[3] = <uint8_t>word


cdef void hash_rest(
    Compress compress,
    State* state,
    Py_ssize_t before,
    const uint8_t* octets,
    Py_ssize_t size,
    uint8_t* digest,
) noexcept nogil:
    """The digest of a text of which `before` octets, whole blocks, are in `state` already."""
    cdef uint8_t[2 * BLOCK_BYTES] last
    cdef Py_ssize_t blocks = size // BLOCK_BYTES
    cdef Py_ssize_t rest = size - blocks * BLOCK_BYTES
    cdef Py_ssize_t last_bytes = BLOCK_BYTES if rest < BLOCK_BYTES - LENGTH_BYTES else 2 * BLOCK_BYTES
    cdef Py_ssize_t bits = (before + size) * 8
    cdef int index
    compress(state, octets, blocks)
    memcpy(last, octets + blocks * BLOCK_BYTES, rest)
    memset(last + rest, 0, last_bytes - rest)
    last[rest] = END_OF_TEXT
    put_word(last + last_bytes - 8, <uint32_t>(bits >> 32))
    put_word(last + last_bytes - 4, <uint32_t>bits)
    compress(state, last, last_bytes // BLOCK_BYTES)
    for index in range(8):
        put_word(digest + 4 * index, state.words[index])


cdef inline void hash_whole(
    Compress compress, const uint8_t* octets, Py_ssize_t size, uint8_t* digest
) noexcept nogil:
    cdef State state
    memcpy(state.words, FIRST_STATE, sizeof(State))
    hash_rest(compress, &state, 0, octets, size, digest)


# Asked once: under a hypervisor the answer takes longer than ten signatures.
cdef bint _has_instructions = has_sha_instructions()
cdef Compress _compress = compress_by_instructions if _has_instructions else compress_portably
cdef Py_ssize_t _long_bytes = LONG_BYTES if _has_instructions else LONG_BYTES_PORTABLY


def digests(bytes octets not None):
    found = [digest_by(compress_portably, octets)]
    if _has_instructions:
        found.append(digest_by(compress_by_instructions, octets))
    return found


cdef bytes digest_by(Compress compress, bytes octets):
    cdef uint8_t[DIGEST_BYTES] digest
    cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(octets)
    hash_whole(compress, start, PyBytes_GET_SIZE(octets), digest)
    return PyBytes_FromStringAndSize(<const char*>digest, DIGEST_BYTES)


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
    memcpy(state.words, FIRST_STATE, sizeof(State))
    _compress(state, block, 1)
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
    cdef bytes made
    cdef Py_ssize_t size = PyBytes_GET_SIZE(body)
    if size < _long_bytes:
        hash_whole(_compress, <const uint8_t*>PyBytes_AS_STRING(body), size, digest)
    else:
        made = _sha256(body).digest()
        assert PyBytes_GET_SIZE(made) == DIGEST_BYTES
        memcpy(digest, PyBytes_AS_STRING(made), DIGEST_BYTES)
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
    hash_whole(_compress, text.octets, text.size, digest)
    put_digits(at, digest)
    hash_rest(_compress, &state, BLOCK_BYTES, to_sign, at + DIGITS - to_sign, digest)
    state = proof._outer
    hash_rest(_compress, &state, BLOCK_BYTES, digest, DIGEST_BYTES, digest)
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
