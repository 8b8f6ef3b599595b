# cython: language_level=3
"""The apply rules in C: conflict table and committed window in flat memory.

`_occ_ref.py` is the readable version and owns constants and types; tests hold the two equal. An
entry passes three steps: its keys are hashed in place, where every refusal happens; it is judged,
which touches C memory only and cannot fail; its outcomes and its row become Python objects. Both
tables are allocated whole, at their bounds: pages that were never needed cost nothing, and no entry
has to wait for a table that grows.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from fastnode._core cimport KIND_DELETE, KIND_PUT
from fastnode._entry cimport Blob, Entry, Place, Write, first_read, is_equal, read_count
from fastnode._entry cimport walk_blob, walk_write, write_count
from fastnode._keys cimport (
    Cursor,
    address,
    finish,
    load_u16,
    load_u32,
    load_u64,
    store_u16,
    store_u32,
    store_u64,
    take,
    xxh3,
)

from xxhash import xxh3_64_intdigest as _long_hash

from fastnode import _occ_ref as _ref

cdef extern from "Python.h":
    ctypedef object (*newfunc)(type, tuple, PyObject*)
    ctypedef struct PyTypeObject:
        newfunc tp_new
    PyTypeObject PyTuple_Type

cdef type _Resolved = _ref.Resolved
cdef object _check_bounds = _ref.check_bounds

cdef uint8_t _ROW_VERSION = _ref.ROW_VERSION
cdef uint64_t _SEED_HIGH = _ref.SEED_HIGH
cdef uint64_t _SEED_LOW = _ref.SEED_LOW
cdef Py_ssize_t _FORGOTTEN_MAX = _ref.FORGOTTEN_MAX
cdef uint16_t _APPLIED = _ref.APPLIED
cdef uint16_t _STALE = _ref.STALE
cdef uint16_t _DUPLICATE = _ref.DUPLICATE
cdef uint16_t _TOO_OLD = _ref.TOO_OLD
cdef uint16_t _CONFLICT = _ref.CONFLICT

assert len(_ref.CLASSES) == CLASS_COUNT
assert _ref.TABLE_ROWS_MAX < POSITION_MASK


@cython.final
@cython.auto_pickle(False)
cdef class Resolver:
    def __cinit__(self, window_ms=_ref.WINDOW_MS, keys_max=_ref.KEYS_MAX, classes=_ref.CLASSES):
        _check_bounds(window_ms, keys_max, classes)
        cdef Memory* memory = &self.memory
        cdef uint32_t requests_max = 0
        memory.window_ms = window_ms
        for index, (retention_ms, rows_max) in enumerate(classes):
            memory.retention_ms[<int>index] = retention_ms
            memory.rows_max[<int>index] = rows_max
            requests_max += <uint32_t>rows_max
        allocate(&memory.keys, keys_max)
        allocate(&memory.requests, requests_max)

    def __dealloc__(self):
        free(self.memory.keys.nodes)
        free(self.memory.keys.slots)
        free(self.memory.requests.nodes)
        free(self.memory.requests.slots)
        free(self.memory.rows)
        free(self.memory.expired)
        free(self.judged.parsed)
        free(self.judged.prints)

    @property
    def floor(self):
        return self.memory.floor

    @property
    def last_commit_ts(self):
        return self.memory.last_commit_ts

    @property
    def key_count(self):
        return self.memory.by_age.count

    @property
    def request_count(self):
        return sum([self.memory.by_class[index].count for index in range(CLASS_COUNT)])

    @property
    def class_floors(self):
        return [self.memory.class_floors[index] for index in range(CLASS_COUNT)]

    @property
    def memory_bytes(self):
        cdef Memory* memory = &self.memory
        return (
            table_bytes(&memory.keys)
            + table_bytes(&memory.requests)
            + memory.rows_capacity * sizeof(Row)
            + memory.expired_capacity * sizeof(uint64_t)
            + self.judged.parsed_capacity * sizeof(Parsed)
            + self.judged.prints_capacity * sizeof(Print)
        )

    def find(self, bytes request not None):
        cdef Print name
        if PyBytes_GET_SIZE(request) != 16:
            return None
        load_print(&name, address(request))
        cdef Node* node = find(&self.memory.requests, &name)
        return None if node == NULL else (node.commit_ts, node.other)

    def resolve(self, Entry entry not None):
        cdef Judged* judged = &self.judged
        cdef Memory* memory = &self.memory
        read_entry(memory, judged, entry)
        reserve_row(memory)
        judge_entry(memory, judged)
        cdef list outcomes = outcomes_of(memory, judged)
        if memory.last_commit_ts == memory.before:
            return PyTuple_Type.tp_new(_Resolved, ((outcomes, 0, b"", []),), NULL)
        cdef bytes row = encode_row(memory, judged)
        cdef list expired = [memory.expired[at] for at in range(memory.expired_count)]
        memory.expired_count = 0
        expired.sort()
        return PyTuple_Type.tp_new(
            _Resolved, ((outcomes, memory.last_commit_ts, row, expired),), NULL
        )

    def restore(self, rows, uint64_t last_commit_ts):
        cdef Memory* memory = &self.memory
        clear(memory)
        try:
            for row_id, row in rows:
                restore_row(memory, row_id, row)
            if last_commit_ts < memory.last_commit_ts:
                raise ValueError("a row is newer than the last commit")
        except BaseException:
            clear(memory)
            raise
        if memory.last_commit_ts == 0:
            memory.floor = last_commit_ts
        memory.last_commit_ts = last_commit_ts


# --- reading an entry: every refusal happens here, before anything is changed ------------------


cdef int read_entry(Memory* memory, Judged* entry, Entry source) except -1:
    cdef Py_ssize_t at
    entry.count = entry.print_count = 0
    entry.read.at = NULL
    for at in range(source.count):
        if entry.count == entry.parsed_capacity:
            entry.parsed = <Parsed*>grown(entry.parsed, &entry.parsed_capacity, sizeof(Parsed))
        read_transaction(entry, &entry.parsed[entry.count], &source.places[at])
        expect(&memory.requests, &entry.parsed[entry.count].request)
        entry.count += 1
    for at in range(entry.print_count):
        expect(&memory.keys, &entry.prints[at])
    return 0


cdef int read_transaction(Judged* entry, Parsed* parsed, const Place* place) except -1:
    cdef const uint8_t* head = place.head
    load_print(&parsed.request, head)
    parsed.start_ts = load_u64(head + 16)
    parsed.commit_ts = load_u64(head + 24)
    parsed.retention = head[32]
    parsed.mask = load_u16(head + 33)
    if parsed.retention >= CLASS_COUNT:
        raise ValueError("unknown retention class")
    parsed.writes_start = entry.print_count
    read_writes(entry, place)
    parsed.reads_start = entry.print_count
    read_reads(entry, place)
    parsed.reads_end = entry.print_count
    return 0


cdef int read_writes(Judged* entry, const Place* place) except -1:
    cdef const uint8_t* at = place.writes
    cdef Write write
    for _ in range(write_count(place)):
        at = walk_write(at, &write)
        if write.kind == KIND_PUT or write.kind == KIND_DELETE:
            hash_key(next_print(entry), &write.key)
    return 0


cdef int read_reads(Judged* entry, const Place* place) except -1:
    cdef const uint8_t* at = first_read(place)
    cdef Blob key
    for _ in range(read_count(place)):
        at = walk_blob(at, &key)
        if entry.read.at == NULL or not is_equal(&entry.read, &key):
            hash_key(&entry.read_name, &key)
            entry.read = key
        next_print(entry)[0] = entry.read_name
    return 0


cdef inline Print* next_print(Judged* entry) except NULL:
    if entry.print_count == entry.prints_capacity:
        entry.prints = <Print*>grown(entry.prints, &entry.prints_capacity, sizeof(Print))
    entry.print_count += 1
    return &entry.prints[entry.print_count - 1]


cdef int hash_key(Print* name, const Blob* key) except -1:
    cdef bytes copy
    if key.size <= SHORT_KEY_BYTES:
        name.high = xxh3(key.at, key.size, _SEED_HIGH)
        name.low = xxh3(key.at, key.size, _SEED_LOW)
    else:
        copy = PyBytes_FromStringAndSize(<const char*>key.at, key.size)
        name.high = _long_hash(copy, _SEED_HIGH)
        name.low = _long_hash(copy, _SEED_LOW)
    return 0


cdef void* grown(void* items, Py_ssize_t* capacity, size_t size) except NULL:
    cdef Py_ssize_t wanted = max(2 * capacity[0], 64)
    cdef void* moved = realloc(items, <size_t>wanted * size)
    if moved == NULL:
        raise MemoryError()
    capacity[0] = wanted
    return moved


# --- judging: the rules of one entry, in order -------------------------------------------------


cdef void judge_entry(Memory* memory, Judged* entry) noexcept nogil:
    cdef Py_ssize_t index, requests = 0
    cdef Parsed* parsed
    memory.before = memory.last_commit_ts
    memory.held_now = 0
    entry.landed_keys = 0
    memset(entry.landed_requests, 0, sizeof(entry.landed_requests))
    for index in range(entry.count):
        parsed = &entry.parsed[index]
        parsed.status = judge(memory, entry, parsed)
        if parsed.status == _APPLIED:
            remember(memory, entry, parsed)
            requests += 1
            entry.landed_requests[parsed.retention] += 1
            entry.landed_keys += parsed.reads_start - parsed.writes_start
    if requests != 0:
        forget_by_time(memory, _FORGOTTEN_MAX + entry.landed_keys + requests)
        add_row(memory, memory.last_commit_ts)


cdef uint16_t judge(Memory* memory, Judged* entry, Parsed* parsed) noexcept nogil:
    cdef Node* node = find(&memory.requests, &parsed.request)
    cdef Py_ssize_t at
    if node != NULL:
        parsed.commit_ts = node.commit_ts
        parsed.mask = <uint16_t>node.other
        return _DUPLICATE
    if parsed.commit_ts <= memory.last_commit_ts:
        return _STALE
    if parsed.start_ts < memory.floor:
        return _TOO_OLD
    for at in range(parsed.writes_start, parsed.reads_end):
        node = find(&memory.keys, &entry.prints[at])
        if node != NULL and node.commit_ts > parsed.start_ts:
            return _CONFLICT
    return _APPLIED


cdef void remember(Memory* memory, Judged* entry, Parsed* parsed) noexcept nogil:
    cdef Py_ssize_t at
    cdef Node* node
    if memory.by_class[parsed.retention].count == memory.rows_max[parsed.retention]:
        evict_request(memory, parsed.retention)
    add_request(memory, &parsed.request, parsed.commit_ts, parsed.mask, parsed.retention)
    for at in range(parsed.writes_start, parsed.reads_start):
        node = find(&memory.keys, &entry.prints[at])
        if node == NULL and memory.by_age.count == memory.keys.capacity:
            evict_keys(memory)
        # A transaction with more keys than the table holds has raised the floor to itself.
        if parsed.commit_ts > memory.floor:
            add_key(memory, node, &entry.prints[at], parsed.commit_ts)
    memory.last_commit_ts = parsed.commit_ts


cdef void add_key(
    Memory* memory, Node* node, const Print* name, uint64_t commit_ts
) noexcept nogil:
    cdef Table* table = &memory.keys
    cdef uint32_t position
    if node == NULL:
        position = insert(table, name)
        node = &table.nodes[position]
    else:
        position = <uint32_t>(node - table.nodes)
        unlink_key(memory, node)
        release(memory, node.commit_ts, 1)
    node.commit_ts = commit_ts
    node.other = memory.by_age.newest
    append(table, &memory.by_age, position)
    memory.held_now += 1


cdef void add_request(
    Memory* memory, const Print* name, uint64_t commit_ts, uint16_t mask, int retention
) noexcept nogil:
    cdef uint32_t position = insert(&memory.requests, name)
    memory.requests.nodes[position].commit_ts = commit_ts
    memory.requests.nodes[position].other = mask
    append(&memory.requests, &memory.by_class[retention], position)
    memory.held_now += 1


cdef Py_ssize_t evict_keys(Memory* memory) noexcept nogil:
    """All keys of the oldest commit together: so the floor alone says what is remembered."""
    cdef Py_ssize_t count = 0
    cdef uint32_t position = memory.by_age.oldest
    cdef Node* node = &memory.keys.nodes[position]
    memory.floor = node.commit_ts
    while position != 0 and node.commit_ts == memory.floor:
        unlink_key(memory, node)
        discard(&memory.keys, position)
        count += 1
        position = memory.by_age.oldest
        node = &memory.keys.nodes[position]
    release(memory, memory.floor, count)
    return count


cdef void evict_request(Memory* memory, int retention) noexcept nogil:
    cdef Chain* chain = &memory.by_class[retention]
    cdef uint32_t position = chain.oldest
    cdef Node* node = &memory.requests.nodes[position]
    cdef uint64_t commit_ts = node.commit_ts
    chain.oldest = node.next
    if chain.oldest == 0:
        chain.newest = 0
    chain.count -= 1
    discard(&memory.requests, position)
    memory.class_floors[retention] = commit_ts
    release(memory, commit_ts, 1)


cdef void forget_by_time(Memory* memory, Py_ssize_t count_max) noexcept nogil:
    cdef int retention
    cdef Py_ssize_t count = 0
    cdef Chain* chain = &memory.by_age
    while chain.count != 0 and count < count_max:
        if age_ms(memory, &memory.keys, chain) <= memory.window_ms:
            break
        count += evict_keys(memory)
    for retention in range(CLASS_COUNT):
        chain = &memory.by_class[retention]
        count = 0
        while chain.count != 0 and count < count_max:
            if age_ms(memory, &memory.requests, chain) <= memory.retention_ms[retention]:
                break
            evict_request(memory, retention)
            count += 1


cdef inline uint64_t age_ms(Memory* memory, Table* table, Chain* chain) noexcept nogil:
    return (memory.last_commit_ts >> 16) - (table.nodes[chain.oldest].commit_ts >> 16)


cdef int reserve_row(Memory* memory) except -1:
    """Room for one more row, and for all of them to expire: after this, judging cannot fail."""
    if memory.rows_end == memory.rows_capacity:
        drop_expired_rows(memory)
        if 2 * memory.rows_end >= memory.rows_capacity:
            memory.rows = <Row*>grown(memory.rows, &memory.rows_capacity, sizeof(Row))
    while memory.expired_count + memory.rows_end - memory.rows_start >= memory.expired_capacity:
        memory.expired = <uint64_t*>grown(
            memory.expired, &memory.expired_capacity, sizeof(uint64_t)
        )
    return 0


cdef void drop_expired_rows(Memory* memory) noexcept nogil:
    cdef Py_ssize_t at, kept = 0
    for at in range(memory.rows_start, memory.rows_end):
        if memory.rows[at].held != 0:
            memory.rows[kept] = memory.rows[at]
            kept += 1
    memory.rows_start = 0
    memory.rows_end = kept


cdef void clear(Memory* memory) noexcept nogil:
    clear_table(&memory.keys)
    clear_table(&memory.requests)
    memset(&memory.by_age, 0, sizeof(Chain))
    memset(memory.by_class, 0, sizeof(memory.by_class))
    memset(memory.class_floors, 0, sizeof(memory.class_floors))
    memory.floor = memory.last_commit_ts = memory.before = memory.held_now = 0
    memory.rows_start = memory.rows_end = memory.expired_count = 0


cdef void clear_table(Table* table) noexcept nogil:
    # An unused table is zero already; writing zeros would only make its pages resident.
    if table.touched != 0:
        memset(table.slots, 0, table.slot_count * sizeof(uint32_t))
    table.touched = table.free = 0


# --- results and rows as Python objects --------------------------------------------------------


cdef list outcomes_of(Memory* memory, Judged* entry):
    cdef list outcomes = PyList_New(entry.count)
    cdef Py_ssize_t index
    cdef Parsed* parsed
    cdef tuple outcome
    cdef uint16_t mask
    for index in range(entry.count):
        parsed = &entry.parsed[index]
        mask = parsed.mask if parsed.status in (_APPLIED, _DUPLICATE) else 0
        outcome = (<long>parsed.status, parsed.commit_ts, <long>mask)
        Py_INCREF(outcome)
        PyList_SET_ITEM(outcomes, index, outcome)
    return outcomes


cdef bytes encode_row(Memory* memory, Judged* entry):
    cdef Py_ssize_t size = ROW_HEAD_BYTES + entry.landed_keys * ROW_KEY_BYTES
    cdef int retention
    for retention in range(CLASS_COUNT):
        size += entry.landed_requests[retention] * ROW_REQUEST_BYTES
    cdef bytes row = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* at = address(row)
    at[0] = _ROW_VERSION
    at = store_u64(at + 1, memory.floor)
    for retention in range(CLASS_COUNT):
        at = store_u64(at, memory.class_floors[retention])
    at = store_u32(at, <uint32_t>entry.landed_keys)
    for retention in range(CLASS_COUNT):
        at = store_u32(at, <uint32_t>entry.landed_requests[retention])
    at = store_keys(at, entry)
    for retention in range(CLASS_COUNT):
        if entry.landed_requests[retention] != 0:
            at = store_requests(at, entry, retention)
    assert at == address(row) + size
    return row


cdef uint8_t* store_keys(uint8_t* at, Judged* entry) noexcept nogil:
    cdef Py_ssize_t index, key
    cdef Parsed* parsed
    for index in range(entry.count):
        parsed = &entry.parsed[index]
        if parsed.status == _APPLIED:
            for key in range(parsed.writes_start, parsed.reads_start):
                at = store_u64(store_print(at, &entry.prints[key]), parsed.commit_ts)
    return at


cdef uint8_t* store_requests(uint8_t* at, Judged* entry, int retention) noexcept nogil:
    cdef Py_ssize_t index
    cdef Parsed* parsed
    for index in range(entry.count):
        parsed = &entry.parsed[index]
        if parsed.status == _APPLIED and parsed.retention == retention:
            at = store_u64(store_print(at, &parsed.request), parsed.commit_ts)
            at = store_u16(at, parsed.mask)
    return at


# --- restoring ---------------------------------------------------------------------------------


cdef int restore_row(Memory* memory, uint64_t row_id, bytes row) except -1:
    cdef Cursor cursor
    cdef const uint8_t* head
    cdef const uint8_t* keys
    cdef const uint8_t* requests
    cdef uint64_t key_count, request_count = 0
    cdef int retention
    cdef uint32_t count
    if row is None or row_id <= memory.last_commit_ts:
        raise ValueError("the rows are not in ascending order")
    cursor.at = address(row)
    cursor.end = cursor.at + PyBytes_GET_SIZE(row)
    head = take(&cursor, ROW_HEAD_BYTES)
    if head[0] != _ROW_VERSION:
        raise ValueError("unknown version")
    key_count = load_u32(head + 41)
    for retention in range(CLASS_COUNT):
        request_count += load_u32(head + 45 + 4 * retention)
    keys = take(&cursor, key_count * ROW_KEY_BYTES)
    requests = take(&cursor, request_count * ROW_REQUEST_BYTES)
    finish(&cursor)
    reserve_row(memory)
    memory.before = memory.last_commit_ts
    memory.held_now = 0
    raise_floors(memory, head + 1, row_id)
    restore_keys(memory, keys, key_count, row_id)
    for retention in range(CLASS_COUNT):
        count = load_u32(head + 45 + 4 * retention)
        restore_requests(memory, requests, count, retention, row_id)
        requests += <size_t>count * ROW_REQUEST_BYTES
    add_row(memory, row_id)
    memory.last_commit_ts = row_id
    return 0


cdef int raise_floors(Memory* memory, const uint8_t* floors, uint64_t row_id) except -1:
    cdef uint64_t key_floor = load_u64(floors), class_floor
    cdef int retention
    cdef Chain* chain
    check_floor(memory.floor, key_floor, row_id)
    while memory.by_age.count != 0:
        if memory.keys.nodes[memory.by_age.oldest].commit_ts > key_floor:
            break
        evict_keys(memory)
    memory.floor = key_floor
    for retention in range(CLASS_COUNT):
        class_floor = load_u64(floors + 8 + 8 * retention)
        check_floor(memory.class_floors[retention], class_floor, row_id)
        chain = &memory.by_class[retention]
        while chain.count != 0:
            if memory.requests.nodes[chain.oldest].commit_ts > class_floor:
                break
            evict_request(memory, retention)
        memory.class_floors[retention] = class_floor
    return 0


cdef int check_floor(uint64_t before, uint64_t floor, uint64_t row_id) except -1:
    if floor < before or floor > row_id:
        raise ValueError("a floor sinks or is in the future")
    return 0


cdef int restore_keys(
    Memory* memory, const uint8_t* at, uint64_t count, uint64_t row_id
) except -1:
    cdef uint64_t index, commit_ts, latest = memory.before + 1
    cdef Print name
    cdef Node* node
    for index in range(count):
        load_print(&name, at)
        commit_ts = load_u64(at + 16)
        at += ROW_KEY_BYTES
        if commit_ts < latest or commit_ts > row_id:
            raise ValueError("a key is not in its place")
        latest = commit_ts
        if commit_ts <= memory.floor:
            continue
        node = find(&memory.keys, &name)
        if node == NULL and memory.by_age.count == memory.keys.capacity:
            raise ValueError("the rows hold more keys than the table")
        add_key(memory, node, &name, commit_ts)
    return 0


cdef int restore_requests(
    Memory* memory, const uint8_t* at, uint32_t count, int retention, uint64_t row_id
) except -1:
    cdef uint64_t commit_ts, latest = memory.before
    cdef uint32_t index
    cdef Print name
    for index in range(count):
        load_print(&name, at)
        commit_ts = load_u64(at + 16)
        if commit_ts <= latest or commit_ts > row_id:
            raise ValueError("a request is not in its place")
        latest = commit_ts
        if commit_ts > memory.class_floors[retention]:
            if find(&memory.requests, &name) != NULL:
                raise ValueError("a request is remembered twice")
            if memory.by_class[retention].count == memory.rows_max[retention]:
                raise ValueError("the rows hold more requests than the window")
            add_request(memory, &name, commit_ts, load_u16(at + 24), retention)
        at += ROW_REQUEST_BYTES
    return 0
