# cython: language_level=3
"""Order-preserving, self-delimiting keys in C, and the hash that places queues and message groups.

`_keys_ref.py` is the readable version and owns the constants; tests hold the two equal. Values are
not here.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp

from xxhash import xxh3_64_intdigest as _long_hash

from fastnode import _keys_ref as _ref

cdef extern from *:
    ctypedef unsigned long long uint128_t "unsigned __int128"

cdef object _ParsedKey = _ref.ParsedKey
cdef dict _SHAPES = _ref.SHAPES
cdef bytes _TOMBSTONE = _ref.FAMILY_TOMBSTONE
cdef bytes _PARTITIONED = _ref.PARTITIONED
cdef int64_t _UNPARTITIONED = _ref.UNPARTITIONED
cdef Py_ssize_t _ACCOUNT_DIGITS = _ref.ACCOUNT_DIGITS
cdef Py_ssize_t _SHORT_HASH_BYTES = 128


def text(str value not None):
    cdef Py_ssize_t size
    cdef const char* source = PyUnicode_AsUTF8AndSize(value, &size)
    cdef bytes result = PyBytes_FromStringAndSize(NULL, text_size(source, size))
    store_text(address(result), source, size)
    return result


def queue_segment(str account not None, str region not None, str name not None):
    cdef Py_ssize_t account_size, region_size, name_size
    cdef const char* digits = PyUnicode_AsUTF8AndSize(account, &account_size)
    cdef const char* place = PyUnicode_AsUTF8AndSize(region, &region_size)
    cdef const char* label = PyUnicode_AsUTF8AndSize(name, &name_size)
    if account_size != _ACCOUNT_DIGITS or not are_digits(<const uint8_t*>digits, account_size):
        raise ValueError("an account is 12 digits")
    cdef bytes result = PyBytes_FromStringAndSize(
        NULL, account_size + text_size(place, region_size) + text_size(label, name_size)
    )
    cdef uint8_t* at = store(address(result), digits, account_size)
    at = store_text(at, place, region_size)
    store_text(at, label, name_size)
    return result


def split_queue_segment(bytes segment not None):
    cdef Cursor cursor = cursor_over(segment, 0)
    parts = (take_account(&cursor), take_text(&cursor), take_text(&cursor))
    finish(&cursor)
    return parts


def queue_key(bytes family not None, bytes segment not None):
    cdef uint8_t* at
    return extended(family, segment, 0, &at)


def tombstone_key(bytes segment not None, uint64_t generation):
    cdef uint8_t* at
    cdef bytes result = extended(_TOMBSTONE, segment, 8, &at)
    store_u64(at, generation)
    return result


def scope_prefix(
    bytes family not None, bytes segment not None, uint64_t generation, int64_t partition=-1
):
    cdef uint8_t* at
    cdef bytes result
    if partition == _UNPARTITIONED:
        result = extended(family, segment, 8, &at)
        store_u64(at, generation)
        return result
    if partition < 0 or partition > <int64_t>0xFFFFFFFF:
        raise OverflowError("a partition is an unsigned 32-bit number")
    result = extended(family, _PARTITIONED, PyBytes_GET_SIZE(segment) + 12, &at)
    at = store(at, PyBytes_AS_STRING(segment), PyBytes_GET_SIZE(segment))
    at = store_u32(at, <uint32_t>partition)
    store_u64(at, generation)
    return result


def message_key(bytes prefix not None, uint64_t commit_ts, uint16_t entry):
    cdef uint8_t* at
    cdef bytes result = extended(prefix, b"", 10, &at)
    store_u16(store_u64(at, commit_ts), entry)
    return result


def split_message_key(Py_ssize_t prefix_length, bytes key not None):
    cdef Cursor cursor = cursor_over(key, prefix_length)
    cdef const uint8_t* at = take(&cursor, 10)
    finish(&cursor)
    return load_u64(at), load_u16(at + 8)


def timer_key(bytes prefix not None, uint64_t at, uint64_t commit_ts, uint16_t entry):
    cdef uint8_t* tail
    cdef bytes result = extended(prefix, b"", 18, &tail)
    store_u16(store_u64(store_u64(tail, at), commit_ts), entry)
    return result


def split_timer_key(Py_ssize_t prefix_length, bytes key not None):
    cdef Cursor cursor = cursor_over(key, prefix_length)
    cdef const uint8_t* at = take(&cursor, 18)
    finish(&cursor)
    return load_u64(at), load_u64(at + 8), load_u16(at + 16)


def dedup_key(bytes prefix not None, str group_id not None, str dedup_id not None):
    cdef Py_ssize_t group_size, dedup_size
    cdef const char* group = PyUnicode_AsUTF8AndSize(group_id, &group_size)
    cdef const char* dedup = PyUnicode_AsUTF8AndSize(dedup_id, &dedup_size)
    cdef uint8_t* at
    cdef bytes result = extended(
        prefix, b"", text_size(group, group_size) + text_size(dedup, dedup_size), &at
    )
    store_text(store_text(at, group, group_size), dedup, dedup_size)
    return result


def group_key(bytes prefix not None, str group_id not None, uint64_t commit_ts, uint16_t entry):
    cdef Py_ssize_t group_size
    cdef const char* group = PyUnicode_AsUTF8AndSize(group_id, &group_size)
    cdef uint8_t* at
    cdef bytes result = extended(prefix, b"", text_size(group, group_size) + 10, &at)
    store_u16(store_u64(store_text(at, group, group_size), commit_ts), entry)
    return result


def id_key(bytes prefix not None, bytes message_id not None):
    cdef uint8_t* at
    if PyBytes_GET_SIZE(message_id) != 16:
        raise ValueError("a message id has 16 bytes")
    return extended(prefix, message_id, 0, &at)


def counter_key(bytes prefix not None, uint8_t kind):
    cdef uint8_t* at
    cdef bytes result = extended(prefix, b"", 1, &at)
    at[0] = kind
    return result


def prefix_end(bytes prefix not None):
    cdef Py_ssize_t size = PyBytes_GET_SIZE(prefix)
    cdef const uint8_t* source = <const uint8_t*>PyBytes_AS_STRING(prefix)
    while size > 0 and source[size - 1] == 0xFF:
        size -= 1
    if size == 0:
        raise ValueError("no key is above this prefix")
    cdef bytes result = PyBytes_FromStringAndSize(NULL, size)
    store(address(result), <const char*>source, size)
    address(result)[size - 1] = source[size - 1] + 1
    return result


def parse_key(bytes key not None):
    cdef bytes family = family_of(key)
    cdef str shape = _SHAPES[family]
    cdef Cursor cursor = cursor_over(key, PyBytes_GET_SIZE(family))
    cdef bint scoped = shape != "queue" and shape != "tombstone"
    cdef bint partitioned = scoped and skip(&cursor, _PARTITIONED)
    account = take_account(&cursor)
    region = take_text(&cursor)
    name = take_text(&cursor)
    cdef object partition = _UNPARTITIONED
    if partitioned:
        partition = load_u32(take(&cursor, 4))
    generation = None if shape == "queue" else load_u64(take(&cursor, 8))
    tail = take_tail(&cursor, shape)
    finish(&cursor)
    return _ParsedKey(family, account, region, name, partition, generation, tail)


def home_group(bytes segment not None, int64_t groups):
    if groups < 1:
        raise ValueError("a cluster has at least one group")
    cdef Py_ssize_t size = PyBytes_GET_SIZE(segment)
    if size > _SHORT_HASH_BYTES:
        return _long_hash(segment, 0) % groups
    return xxh3(<const uint8_t*>PyBytes_AS_STRING(segment), size, 0) % <uint64_t>groups


def partition_for(str group_id not None, uint64_t seed, int64_t partition_count, bint per_queue):
    if partition_count > 1 and partition_count & (partition_count - 1):
        raise ValueError("the number of partitions is a power of two")
    if partition_count <= 1 or per_queue or not group_id:
        return 0
    cdef Py_ssize_t size
    cdef const char* source = PyUnicode_AsUTF8AndSize(group_id, &size)
    cdef uint64_t mask = <uint64_t>(partition_count - 1)
    if size > _SHORT_HASH_BYTES:
        return _long_hash(group_id.encode(), seed) & mask
    return xxh3(<const uint8_t*>source, size, seed) & mask


cdef inline bytes extended(bytes head, bytes middle, Py_ssize_t room, uint8_t** tail):
    """head ‖ middle ‖ `room` bytes that the caller fills from `tail` on."""
    cdef Py_ssize_t head_size = PyBytes_GET_SIZE(head)
    cdef Py_ssize_t middle_size = PyBytes_GET_SIZE(middle)
    cdef bytes result = PyBytes_FromStringAndSize(NULL, head_size + middle_size + room)
    cdef uint8_t* at = store(address(result), PyBytes_AS_STRING(head), head_size)
    tail[0] = store(at, PyBytes_AS_STRING(middle), middle_size)
    return result


cdef Py_ssize_t text_size(const char* source, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t index, zeros = 0
    for index in range(size):
        zeros += source[index] == 0
    return size + zeros + 2


cdef uint8_t* store_text(uint8_t* at, const char* source, Py_ssize_t size) noexcept nogil:
    cdef const char* zero
    cdef Py_ssize_t run
    while True:
        zero = <const char*>memchr(source, 0, size)
        if zero == NULL:
            break
        run = zero - source + 1
        at = store(at, source, run)
        at[0] = 0xFF
        at += 1
        source += run
        size -= run
    at = store(at, source, size)
    at[0] = 0
    at[1] = 1
    return at + 2


cdef inline Cursor cursor_over(bytes source, Py_ssize_t skipped) except *:
    cdef Cursor cursor
    cdef Py_ssize_t size = PyBytes_GET_SIZE(source)
    if skipped < 0 or skipped > size:
        raise ValueError("the key is shorter than its prefix")
    cursor.at = <const uint8_t*>PyBytes_AS_STRING(source) + skipped
    cursor.end = cursor.at + (size - skipped)
    return cursor


cdef bint are_digits(const uint8_t* at, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t index
    for index in range(size):
        if at[index] < 48 or at[index] > 57:
            return False
    return True


cdef str take_account(Cursor* cursor):
    cdef const uint8_t* at = take(cursor, _ACCOUNT_DIGITS)
    if not are_digits(at, _ACCOUNT_DIGITS):
        raise ValueError("an account is 12 digits")
    return (<const char*>at)[:_ACCOUNT_DIGITS].decode("ascii")


cdef str take_text(Cursor* cursor):
    cdef const uint8_t* start = cursor.at
    cdef const uint8_t* zero
    cdef bint escaped = False
    while True:
        zero = <const uint8_t*>memchr(cursor.at, 0, cursor.end - cursor.at)
        if zero == NULL or zero + 1 == cursor.end:
            raise ValueError("the text has no end")
        cursor.at = zero + 2
        if zero[1] == 1:
            break
        if zero[1] != 0xFF:
            raise ValueError("the text has an unknown escape")
        escaped = True
    cdef bytes raw = PyBytes_FromStringAndSize(<const char*>start, zero - start)
    return (raw.replace(b"\x00\xff", b"\x00") if escaped else raw).decode("utf-8")


cdef bint skip(Cursor* cursor, bytes expected) noexcept:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(expected)
    if cursor.end - cursor.at < size or memcmp(cursor.at, PyBytes_AS_STRING(expected), size) != 0:
        return False
    cursor.at += size
    return True


cdef bytes family_of(bytes key):
    # A family's name ends with the third bar of the key.
    cdef Py_ssize_t size = PyBytes_GET_SIZE(key)
    cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(key)
    cdef const uint8_t* at = start
    cdef int bars
    for bars in range(3):
        at = <const uint8_t*>memchr(at, 124, size - (at - start))
        if at == NULL:
            raise ValueError("the key belongs to no family")
        at += 1
    cdef bytes family = PyBytes_FromStringAndSize(<const char*>start, at - start)
    if family not in _SHAPES:
        raise ValueError("the key belongs to no family")
    return family


cdef tuple take_tail(Cursor* cursor, str shape):
    cdef const uint8_t* at
    if shape == "message":
        at = take(cursor, 10)
        return load_u64(at), load_u16(at + 8)
    if shape == "timer":
        at = take(cursor, 18)
        return load_u64(at), load_u64(at + 8), load_u16(at + 16)
    if shape == "dedup":
        return take_text(cursor), take_text(cursor)
    if shape == "group":
        group_id = take_text(cursor)
        at = take(cursor, 10)
        return group_id, load_u64(at), load_u16(at + 8)
    if shape == "id":
        return (PyBytes_FromStringAndSize(<const char*>take(cursor, 16), 16),)
    if shape == "kind" or (shape == "mark" and cursor.at != cursor.end):
        return (take(cursor, 1)[0],)
    return ()


# XXH3 with 64 bits of result for inputs of up to 128 bytes; the constants are the algorithm's own.
cdef uint64_t PRIME_1 = 0x9E3779B185EBCA87
cdef uint64_t PRIME_2 = 0xC2B2AE3D27D4EB4F
cdef uint64_t PRIME_3 = 0x165667B19E3779F9
cdef uint64_t MIX_1 = 0x165667919E3779F9
cdef uint64_t MIX_2 = 0x9FB21C651E98DF25
cdef uint8_t[128] SECRET = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
]


cdef uint64_t xxh3(const uint8_t* at, size_t length, uint64_t seed) noexcept nogil:
    if length > 16:
        return xxh3_to_128(at, length, seed)
    if length > 8:
        return xxh3_to_16(at, length, seed)
    if length > 3:
        return xxh3_to_8(at, length, seed)
    if length > 0:
        return xxh3_to_3(at, length, seed)
    return avalanche_old(seed ^ pad(56) ^ pad(64))


cdef inline uint64_t xxh3_to_3(const uint8_t* at, size_t length, uint64_t seed) noexcept nogil:
    cdef uint32_t combined = (
        (<uint32_t>at[0] << 16) | (<uint32_t>at[length >> 1] << 24) | at[length - 1]
        | (<uint32_t>length << 8)
    )
    return avalanche_old(combined ^ ((half_pad(0) ^ half_pad(4)) + seed))


cdef inline uint64_t xxh3_to_8(const uint8_t* at, size_t length, uint64_t seed) noexcept nogil:
    cdef uint32_t low = <uint32_t>seed
    cdef uint32_t swapped = (
        (low >> 24) | ((low >> 8) & 0xFF00) | ((low << 8) & 0xFF0000) | (low << 24)
    )
    cdef uint64_t word = load_u32_little(at + length - 4) + (load_u32_little(at) << 32)
    word ^= (pad(8) ^ pad(16)) - (seed ^ (<uint64_t>swapped << 32))
    word ^= rotate_left(word, 49) ^ rotate_left(word, 24)
    word *= MIX_2
    word ^= (word >> 35) + length
    word *= MIX_2
    return word ^ (word >> 28)


cdef inline uint64_t xxh3_to_16(const uint8_t* at, size_t length, uint64_t seed) noexcept nogil:
    cdef uint64_t low = load_u64_little(at) ^ ((pad(24) ^ pad(32)) + seed)
    cdef uint64_t high = load_u64_little(at + length - 8) ^ ((pad(40) ^ pad(48)) - seed)
    # Storing in one byte order and loading in the other is the swap that the algorithm asks for.
    cdef uint8_t[8] swapped
    store_u64(swapped, low)
    return avalanche(length + load_u64_little(swapped) + high + folded_product(low, high))


cdef uint64_t xxh3_to_128(const uint8_t* at, size_t length, uint64_t seed) noexcept nogil:
    cdef uint64_t sum = length * PRIME_1
    cdef size_t pairs = (length - 1) >> 5
    cdef size_t index
    for index in range(pairs + 1):
        sum += mixed(at + 16 * index, 32 * index, seed)
        sum += mixed(at + length - 16 * (index + 1), 32 * index + 16, seed)
    return avalanche(sum)


cdef inline uint64_t mixed(const uint8_t* at, size_t index, uint64_t seed) noexcept nogil:
    return folded_product(
        load_u64_little(at) ^ (pad(index) + seed),
        load_u64_little(at + 8) ^ (pad(index + 8) - seed),
    )


cdef inline uint64_t folded_product(uint64_t left, uint64_t right) noexcept nogil:
    cdef uint128_t product = <uint128_t>left * right
    return <uint64_t>product ^ <uint64_t>(product >> 64)


cdef inline uint64_t avalanche(uint64_t word) noexcept nogil:
    word = (word ^ (word >> 37)) * MIX_1
    return word ^ (word >> 32)


cdef inline uint64_t avalanche_old(uint64_t word) noexcept nogil:
    word = (word ^ (word >> 33)) * PRIME_2
    word = (word ^ (word >> 29)) * PRIME_3
    return word ^ (word >> 32)


cdef inline uint64_t pad(size_t index) noexcept nogil:
    return load_u64_little(&SECRET[index])


cdef inline uint64_t half_pad(size_t index) noexcept nogil:
    return load_u32_little(&SECRET[index])


cdef inline uint64_t load_u32_little(const uint8_t* at) noexcept nogil:
    return (
        <uint64_t>at[0] | (<uint64_t>at[1] << 8) | (<uint64_t>at[2] << 16) | (<uint64_t>at[3] << 24)
    )
