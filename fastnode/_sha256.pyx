# cython: language_level=3
"""SHA-256 (FIPS 180-4) of short texts, in C: by the instructions that x86 processors have for it,
or, without them, with the schedule of words four at a time in vectors, which the compiler makes the
best of for each kind of processor. `_sha256_ref.py` is the readable version.

Long texts are left to hashlib, which lets other threads run meanwhile.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy, memset

from fastnode._keys cimport address

from hashlib import sha256 as _hashlib_sha256

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

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

    typedef uint32_t Four __attribute__((vector_size(16)));

    #define ROTATED(x, bits) (((x) >> (bits)) | ((x) << (32 - (bits))))
    /* 6.2.2, step 3, with its names, which move while the words stay. `sum` is Kt + Wt. What is
       unlike in a and b is so in b and c a round later; Maj is b but where both are unlike. */
    #define ROUND(a, b, c, d, e, f, g, h, sum) { \\
        const uint32_t unlike = a ^ b; \\
        h += (ROTATED(e, 6) ^ ROTATED(e, 11) ^ ROTATED(e, 25)) + (g ^ (e & (f ^ g))) + (sum); \\
        d += h; \\
        h += (ROTATED(a, 2) ^ ROTATED(a, 13) ^ ROTATED(a, 22)) + (b ^ (unlike & unlike_before)); \\
        unlike_before = unlike; }
    #define FOUR_ROUNDS(a, b, c, d, e, f, g, h, t) \\
        ROUND(a, b, c, d, e, f, g, h, sums[t]) \\
        ROUND(h, a, b, c, d, e, f, g, sums[(t) + 1]) \\
        ROUND(g, h, a, b, c, d, e, f, sums[(t) + 2]) \\
        ROUND(f, g, h, a, b, c, d, e, sums[(t) + 3])
    #define EARLY(x) (ROTATED(x, 7) ^ ROTATED(x, 18) ^ ((x) >> 3))
    #define LATE(x) (ROTATED(x, 17) ^ ROTATED(x, 19) ^ ((x) >> 10))
    /* Wt to Wt+3 from the sixteen words before them, in place of the oldest. Of those that LATE
       takes the first two are there already, and the other two come of them. */
    #define NEXT(w0, w1, w2, w3, t) { \\
        const Four late = LATE(w3); \\
        w0 += EARLY(__builtin_shufflevector(w0, w1, 1, 2, 3, 4)); \\
        w0 += __builtin_shufflevector(w2, w3, 1, 2, 3, 4); \\
        w0 += __builtin_shufflevector(late, none, 2, 3, 4, 5); \\
        const Four later = LATE(w0); \\
        w0 += __builtin_shufflevector(none, later, 0, 1, 4, 5); \\
        KEEP_SUMS(w0, t) }
    #define KEEP_SUMS(w, t) { \\
        Four constants; \\
        memcpy(&constants, ROUND_CONSTANTS + (t), 16); \\
        constants += w; \\
        memcpy(sums + (t), &constants, 16); }
    #define LOAD(w, t) { \\
        uint32_t loaded[4]; \\
        memcpy(loaded, octets + 4 * (t), 16); \\
        for (i = 0; i < 4; i++) \\
            w[i] = big_endian(loaded[i]); \\
        KEEP_SUMS(w, t) }

    static uint32_t big_endian(uint32_t word) {
    #if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        return __builtin_bswap32(word);
    #else
        return word;
    #endif
    }

    #define DEFINE_COMPRESS(name, attributes) \\
        attributes static void name(uint32_t *words, const uint8_t *octets, Py_ssize_t blocks) { \\
            const Four none = {0}; \\
            for (; blocks > 0; blocks--, octets += 64) { \\
                uint32_t sums[64] __attribute__((aligned(16))); \\
                uint32_t a = words[0], b = words[1], c = words[2], d = words[3]; \\
                uint32_t e = words[4], f = words[5], g = words[6], h = words[7]; \\
                uint32_t unlike_before = b ^ c; \\
                Four w0, w1, w2, w3; \\
                int i, t; \\
                LOAD(w0, 0) LOAD(w1, 4) LOAD(w2, 8) LOAD(w3, 12) \\
                for (t = 0; t < 48; t += 16) { \\
                    NEXT(w0, w1, w2, w3, t + 16) FOUR_ROUNDS(a, b, c, d, e, f, g, h, t) \\
                    NEXT(w1, w2, w3, w0, t + 20) FOUR_ROUNDS(e, f, g, h, a, b, c, d, t + 4) \\
                    NEXT(w2, w3, w0, w1, t + 24) FOUR_ROUNDS(a, b, c, d, e, f, g, h, t + 8) \\
                    NEXT(w3, w0, w1, w2, t + 28) FOUR_ROUNDS(e, f, g, h, a, b, c, d, t + 12) \\
                } \\
                FOUR_ROUNDS(a, b, c, d, e, f, g, h, 48) FOUR_ROUNDS(e, f, g, h, a, b, c, d, 52) \\
                FOUR_ROUNDS(a, b, c, d, e, f, g, h, 56) FOUR_ROUNDS(e, f, g, h, a, b, c, d, 60) \\
                words[0] += a; words[1] += b; words[2] += c; words[3] += d; \\
                words[4] += e; words[5] += f; words[6] += g; words[7] += h; \\
            } \\
        }

    DEFINE_COMPRESS(compress_anywhere, )

    #if defined(__x86_64__)
    DEFINE_COMPRESS(compress_wide, __attribute__((target("avx2,bmi,bmi2"))))

    #include <cpuid.h>
    #include <immintrin.h>

    static int has_wide(void) {
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
            __builtin_cpu_supports("bmi2");
    }

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
    #define NEXT_BY_SHA(w0, w1, w2, w3) \\
        w0 = _mm_sha256msg2_epu32( \\
            _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8(w3, w2, 4)), w3)
    #define LOADED(at) \\
        _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(octets + (at))), big_endian)
    #define SIXTEEN_ROUNDS(number) \\
        NEXT_BY_SHA(w0, w1, w2, w3); ROUNDS(w0, number) \\
        NEXT_BY_SHA(w1, w2, w3, w0); ROUNDS(w1, number + 1) \\
        NEXT_BY_SHA(w2, w3, w0, w1); ROUNDS(w2, number + 2) \\
        NEXT_BY_SHA(w3, w0, w1, w2); ROUNDS(w3, number + 3)

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
            SIXTEEN_ROUNDS(4)
            SIXTEEN_ROUNDS(8)
            SIXTEEN_ROUNDS(12)
            abef = _mm_add_epi32(abef, abef_before);
            cdgh = _mm_add_epi32(cdgh, cdgh_before);
        }
        const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), hgdc = _mm_shuffle_epi32(cdgh, 0x1b);
        _mm_storeu_si128((__m128i *)words, _mm_unpacklo_epi64(feba, hgdc));
        _mm_storeu_si128((__m128i *)(words + 4), _mm_unpackhi_epi64(feba, hgdc));
    }
    #endif

    typedef void (*Compress)(uint32_t *, const uint8_t *, Py_ssize_t);

    /* What this processor knows, the best one last. */
    static int known_ways(Compress *ways) {
        int count = 0;
        ways[count++] = compress_anywhere;
    #if defined(__x86_64__)
        if (has_wide()) ways[count++] = compress_wide;
        if (has_sha_instructions()) ways[count++] = compress_instructed;
    #endif
        return count;
    }
    """
    const uint32_t[8] FIRST_STATE
    # The words of a state, and blocks.
    ctypedef void (*Compress)(uint32_t*, const uint8_t*, Py_ssize_t) noexcept nogil
    int known_ways(Compress* ways) noexcept nogil

cdef enum:
    LENGTH_BYTES = 8  # at the end of the last block
    END_OF_TEXT = 0x80
    # From here on hashlib is worth its call, without special instructions sooner.
    LONG_BYTES = 4096
    LONG_BYTES_ANYWHERE = 1024
    WAYS_MAX = 3

# Asked once: under a hypervisor the answer takes longer than ten signatures.
cdef Compress[WAYS_MAX] _ways
cdef int _way_count = known_ways(_ways)
cdef Compress _best = _ways[_way_count - 1]
cdef Py_ssize_t _long_bytes = LONG_BYTES if _way_count > 1 else LONG_BYTES_ANYWHERE


def digests(bytes octets not None):
    cdef uint8_t[DIGEST_BYTES] digest
    cdef State state
    cdef int way
    cdef list found = []
    for way in range(_way_count):
        memcpy(state.words, FIRST_STATE, sizeof(State))
        finish(_ways[way], &state, 0, address(octets), PyBytes_GET_SIZE(octets), digest)
        found.append(PyBytes_FromStringAndSize(<const char*>digest, DIGEST_BYTES))
    return found


cdef void begin(State* state, const uint8_t* block) noexcept nogil:
    memcpy(state.words, FIRST_STATE, sizeof(State))
    _best(state.words, block, 1)


cdef void hash_rest(
    State* state, Py_ssize_t before, const uint8_t* octets, Py_ssize_t size, uint8_t* digest
) noexcept nogil:
    finish(_best, state, before, octets, size, digest)


cdef void hash_whole(const uint8_t* octets, Py_ssize_t size, uint8_t* digest) noexcept nogil:
    cdef State state
    memcpy(state.words, FIRST_STATE, sizeof(State))
    finish(_best, &state, 0, octets, size, digest)


cdef int hash_bytes(bytes octets, uint8_t* digest) except -1:
    if PyBytes_GET_SIZE(octets) < _long_bytes:
        hash_whole(address(octets), PyBytes_GET_SIZE(octets), digest)
    else:
        made = <bytes?>_hashlib_sha256(octets).digest()
        memcpy(digest, address(made), DIGEST_BYTES)
    return 0


cdef void finish(
    Compress compress,
    State* state,
    Py_ssize_t before,
    const uint8_t* octets,
    Py_ssize_t size,
    uint8_t* digest,
) noexcept nogil:
    cdef uint8_t[2 * BLOCK_BYTES] last
    cdef Py_ssize_t blocks = size // BLOCK_BYTES
    cdef Py_ssize_t rest = size - blocks * BLOCK_BYTES
    cdef Py_ssize_t end = BLOCK_BYTES if rest < BLOCK_BYTES - LENGTH_BYTES else 2 * BLOCK_BYTES
    cdef Py_ssize_t bits = (before + size) * 8
    cdef int index
    compress(state.words, octets, blocks)
    memcpy(last, octets + blocks * BLOCK_BYTES, rest)
    memset(last + rest, 0, end - rest)
    last[rest] = END_OF_TEXT
    put_word(last + end - 8, <uint32_t>(bits >> 32))
    put_word(last + end - 4, <uint32_t>bits)
    compress(state.words, last, end // BLOCK_BYTES)
    for index in range(8):
        put_word(digest + 4 * index, state.words[index])


cdef inline void put_word(uint8_t* at, uint32_t word) noexcept nogil:
    at[0] = <uint8_t>(word >> 24)
    at[1] = <uint8_t>(word >> 16)
    at[2] = <uint8_t>(word >> 8)
    at[3] = <uint8_t>word
