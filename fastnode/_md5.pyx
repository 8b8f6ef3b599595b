# cython: language_level=3
"""MD5 (RFC 1321) of bodies, in C: of those that are sent together side by side.

A step of MD5 needs the result of the step before it, so a processor that works on one body is idle
most of the time; `ABREAST` bodies in the parts of wide registers take little more time than one. The
same steps serve both. `_md5_ref.py` is the readable version.
"""

from cpython.buffer cimport PyBUF_READ
from cpython.bytes cimport PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from fastnode._keys cimport address

from hashlib import md5 as _hashlib_md5

cdef extern from *:
    """
    #include <stdint.h>

    #define ABREAST 16
    typedef uint32_t Abreast __attribute__((vector_size(4 * ABREAST)));

    /* floor(2**32 * abs(sin(i + 1))) */
    static const uint32_t SINES[64] = {
        0xD76AA478, 0xE8C7B756, 0x242070DB, 0xC1BDCEEE, 0xF57C0FAF, 0x4787C62A,
        0xA8304613, 0xFD469501, 0x698098D8, 0x8B44F7AF, 0xFFFF5BB1, 0x895CD7BE,
        0x6B901122, 0xFD987193, 0xA679438E, 0x49B40821, 0xF61E2562, 0xC040B340,
        0x265E5A51, 0xE9B6C7AA, 0xD62F105D, 0x02441453, 0xD8A1E681, 0xE7D3FBC8,
        0x21E1CDE6, 0xC33707D6, 0xF4D50D87, 0x455A14ED, 0xA9E3E905, 0xFCEFA3F8,
        0x676F02D9, 0x8D2A4C8A, 0xFFFA3942, 0x8771F681, 0x6D9D6122, 0xFDE5380C,
        0xA4BEEA44, 0x4BDECFA9, 0xF6BB4B60, 0xBEBFBC70, 0x289B7EC6, 0xEAA127FA,
        0xD4EF3085, 0x04881D05, 0xD9D4D039, 0xE6DB99E5, 0x1FA27CF8, 0xC4AC5665,
        0xF4292244, 0x432AFF97, 0xAB9423A7, 0xFC93A039, 0x655B59C3, 0x8F0CCC92,
        0xFFEFF47D, 0x85845DD1, 0x6FA87E4F, 0xFE2CE6E0, 0xA3014314, 0x4E0811A1,
        0xF7537E82, 0xBD3AF235, 0x2AD7D2BB, 0xEB86D391,
    };

    #define STEP(mixed, a, b, i, at, bits) \\
        a += (mixed) + SINES[i] + w[(at) & 15]; \\
        a = b + ((a << bits) | (a >> (32 - bits)));

    /* Four rounds of sixteen steps, four at a time so that the words stay in their registers. */
    #define DEFINE_COMPRESS(name, Word, attributes) \\
        attributes static void name(Word *state, const Word *w) { \\
            Word a = state[0], b = state[1], c = state[2], d = state[3]; \\
            int i; \\
            for (i = 0; i < 16; i += 4) { \\
                STEP(d ^ (b & (c ^ d)), a, b, i, i, 7) \\
                STEP(c ^ (a & (b ^ c)), d, a, i + 1, i + 1, 12) \\
                STEP(b ^ (d & (a ^ b)), c, d, i + 2, i + 2, 17) \\
                STEP(a ^ (c & (d ^ a)), b, c, i + 3, i + 3, 22) \\
            } \\
            for (; i < 32; i += 4) { \\
                STEP(c ^ (d & (b ^ c)), a, b, i, 5 * i + 1, 5) \\
                STEP(b ^ (c & (a ^ b)), d, a, i + 1, 5 * i + 6, 9) \\
                STEP(a ^ (b & (d ^ a)), c, d, i + 2, 5 * i + 11, 14) \\
                STEP(d ^ (a & (c ^ d)), b, c, i + 3, 5 * i + 16, 20) \\
            } \\
            for (; i < 48; i += 4) { \\
                STEP(b ^ c ^ d, a, b, i, 3 * i + 5, 4) \\
                STEP(a ^ b ^ c, d, a, i + 1, 3 * i + 8, 11) \\
                STEP(d ^ a ^ b, c, d, i + 2, 3 * i + 11, 16) \\
                STEP(c ^ d ^ a, b, c, i + 3, 3 * i + 14, 23) \\
            } \\
            for (; i < 64; i += 4) { \\
                STEP(c ^ (b | ~d), a, b, i, 7 * i, 6) \\
                STEP(b ^ (a | ~c), d, a, i + 1, 7 * i + 7, 10) \\
                STEP(a ^ (d | ~b), c, d, i + 2, 7 * i + 14, 15) \\
                STEP(d ^ (c | ~a), b, c, i + 3, 7 * i + 21, 21) \\
            } \\
            state[0] += a; \\
            state[1] += b; \\
            state[2] += c; \\
            state[3] += d; \\
        }

    DEFINE_COMPRESS(compress, uint32_t, )
    DEFINE_COMPRESS(compress_narrow, Abreast, )
    #if defined(__x86_64__)
    DEFINE_COMPRESS(compress_wide, Abreast, __attribute__((target("avx2"))))
    DEFINE_COMPRESS(compress_widest, Abreast, __attribute__((target("avx512f"))))
    #endif

    typedef void (*CompressAbreast)(Abreast *, const Abreast *);

    /* What this processor knows, the best one last. */
    static int known_ways(CompressAbreast *ways) {
        int count = 0;
        ways[count++] = compress_narrow;
    #if defined(__x86_64__)
        if (__builtin_cpu_supports("avx2")) ways[count++] = compress_wide;
        if (__builtin_cpu_supports("avx512f")) ways[count++] = compress_widest;
    #endif
        return count;
    }

    static uint32_t part(const Abreast *word, int lane) { return (*word)[lane]; }
    static void set_part(Abreast *word, int lane, uint32_t value) { (*word)[lane] = value; }
    """
    enum:
        ABREAST
    ctypedef struct Abreast:
        pass
    ctypedef void (*CompressAbreast)(Abreast*, const Abreast*) noexcept nogil
    void compress(uint32_t* state, const uint32_t* w) noexcept nogil
    int known_ways(CompressAbreast* ways) noexcept nogil
    uint32_t part(const Abreast* word, int lane) noexcept nogil
    void set_part(Abreast* word, int lane, uint32_t value) noexcept nogil

cdef enum:
    WORDS = 16
    BLOCK_BYTES = 64
    SHORT_BODY_BYTES = 1024
    # All bodies together must have so many times the bytes of the longest to be worth arranging.
    WORTH_IT = 3
    WAYS_MAX = 3

cdef uint32_t[4] _FIRST_STATE = [0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476]
cdef CompressAbreast[WAYS_MAX] _ways
cdef int _way_count = known_ways(_ways)


# A body in blocks: those that are whole, and one or two with the rest, padded.
cdef struct Blocks:
    const uint8_t* body
    Py_ssize_t whole
    Py_ssize_t count
    uint8_t[2 * BLOCK_BYTES] tail


def digests(bodies not None):
    cdef list kept = list(bodies)
    cdef Hashed[ABREAST] hashed
    cdef int way
    results = [to_be_made(kept, hashed)]
    for index in range(len(kept)):
        md5_alone(&hashed[index])
    for way in range(_way_count):
        results.append(to_be_made(kept, hashed))
        md5_abreast(hashed, len(kept), _ways[way])
    return results


cdef list to_be_made(list bodies, Hashed* hashed):
    """Room for the digests; `hashed` says of which body each is."""
    cdef Py_ssize_t index
    cdef bytes body, digest
    cdef list made = []
    if len(bodies) > ABREAST:
        raise ValueError("too many bodies")
    for index in range(len(bodies)):
        body, digest = bodies[index], PyBytes_FromStringAndSize(NULL, DIGEST_BYTES)
        made.append(digest)
        if body is None:
            raise TypeError("a body is bytes")
        hashed[index].body, hashed[index].size = address(body), PyBytes_GET_SIZE(body)
        hashed[index].digest = address(digest)
    return made


cdef int md5_each(const Hashed* hashed, Py_ssize_t count) except -1:
    """Of at most `ABREAST` bodies."""
    cdef Py_ssize_t index, longest = 0, total = 0
    assert count <= ABREAST
    for index in range(count):
        longest = max(longest, BLOCK_BYTES + hashed[index].size)
        total += BLOCK_BYTES + hashed[index].size
    if total >= WORTH_IT * longest:
        md5_abreast(hashed, count, _ways[_way_count - 1])
        return 0
    for index in range(count):
        md5_one(&hashed[index])
    return 0


cdef int md5_one(const Hashed* hashed) except -1:
    # OpenSSL is faster byte by byte, but a call costs as much as a kilobyte does here.
    if hashed.size > SHORT_BODY_BYTES:
        body = PyMemoryView_FromMemory(<char*>hashed.body, hashed.size, PyBUF_READ)
        made = <bytes?>_hashlib_md5(body, usedforsecurity=False).digest()
        memcpy(hashed.digest, address(made), DIGEST_BYTES)
    else:
        md5_alone(hashed)
    return 0


cdef void md5_alone(const Hashed* hashed) noexcept nogil:
    cdef uint32_t[4] state
    cdef uint32_t[WORDS] words
    cdef Blocks blocks
    cdef Py_ssize_t block
    cdef int index
    cut(&blocks, hashed)
    memcpy(state, _FIRST_STATE, sizeof(state))
    for block in range(blocks.count):
        for index in range(WORDS):
            words[index] = load_little(block_at(&blocks, block) + 4 * index)
        compress(state, words)
    for index in range(4):
        store_little(hashed.digest + 4 * index, state[index])


cdef void md5_abreast(
    const Hashed* hashed, Py_ssize_t count, CompressAbreast compress_abreast
) noexcept nogil:
    """A body that has ended goes on with its last block; its digest was taken before."""
    cdef Abreast[4] state
    cdef Abreast[WORDS] words
    cdef Blocks[ABREAST] blocks
    cdef Py_ssize_t block, longest = 0
    cdef const uint8_t* source
    cdef int lane, index
    memset(words, 0, sizeof(words))
    for lane in range(ABREAST):
        for index in range(4):
            set_part(&state[index], lane, _FIRST_STATE[index])
    for lane in range(<int>count):
        cut(&blocks[lane], &hashed[lane])
        longest = max(longest, blocks[lane].count)
    for block in range(longest):
        for lane in range(<int>count):
            if block < blocks[lane].count:
                source = block_at(&blocks[lane], block)
                for index in range(WORDS):
                    set_part(&words[index], lane, load_little(source + 4 * index))
        compress_abreast(state, words)
        for lane in range(<int>count):
            if block == blocks[lane].count - 1:
                for index in range(4):
                    store_little(hashed[lane].digest + 4 * index, part(&state[index], lane))


cdef void cut(Blocks* blocks, const Hashed* hashed) noexcept nogil:
    cdef Py_ssize_t left = hashed.size % BLOCK_BYTES
    cdef Py_ssize_t end = BLOCK_BYTES if left < BLOCK_BYTES - 8 else 2 * BLOCK_BYTES
    cdef uint64_t bits = <uint64_t>hashed.size << 3
    blocks.body = hashed.body
    blocks.whole = hashed.size // BLOCK_BYTES
    blocks.count = blocks.whole + end // BLOCK_BYTES
    memset(blocks.tail, 0, sizeof(blocks.tail))
    memcpy(blocks.tail, hashed.body + hashed.size - left, left)
    blocks.tail[left] = 0x80
    store_little(blocks.tail + end - 8, <uint32_t>bits)
    store_little(blocks.tail + end - 4, <uint32_t>(bits >> 32))


cdef inline const uint8_t* block_at(const Blocks* blocks, Py_ssize_t block) noexcept nogil:
    if block < blocks.whole:
        return blocks.body + block * BLOCK_BYTES
    return blocks.tail + (block - blocks.whole) * BLOCK_BYTES


cdef inline uint32_t load_little(const uint8_t* at) noexcept nogil:
    return (
        <uint32_t>at[0] | (<uint32_t>at[1] << 8) | (<uint32_t>at[2] << 16) | (<uint32_t>at[3] << 24)
    )


cdef inline void store_little(uint8_t* at, uint32_t word) noexcept nogil:
    cdef int index
    for index in range(4):
        at[index] = <uint8_t>(word >> (8 * index))
