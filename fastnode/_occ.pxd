# The C surface of the apply rules: hash tables in flat memory, the rows that hold what the tables
# remember, and one entry while it is judged. The rules themselves are in `_occ.pyx`.

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc

from fastnode._entry cimport Blob
from fastnode._keys cimport load_u64, prefetch, rotate_left, store_u64


cdef enum:
    CLASS_COUNT = 4
    ROW_HEAD_BYTES = 61
    ROW_KEY_BYTES = 24
    ROW_REQUEST_BYTES = 26
    # Longer keys are hashed by the xxhash package.
    SHORT_KEY_BYTES = 128
    # A slot is a tag above the position of a node; position 0 is nobody's.
    POSITION_BITS = 22
    POSITION_MASK = (1 << POSITION_BITS) - 1


cdef struct Print:
    uint64_t high
    uint64_t low


cdef struct Node:
    # 32 bytes; with its share of the slots a remembered key takes 39.
    Print name
    uint64_t commit_ts
    uint32_t next  # towards the newest; in the list of free nodes, the next free one
    uint32_t other  # of a key: towards the oldest; of a request: its mask


cdef struct Chain:
    uint32_t oldest
    uint32_t newest
    uint32_t count


cdef struct Table:
    Node* nodes
    uint32_t* slots
    uint32_t slot_count
    uint32_t capacity
    uint32_t touched  # nodes beyond were never used, so their pages cost nothing yet
    uint32_t free


cdef struct Row:
    uint64_t id
    uint64_t held


cdef struct Parsed:
    Print request
    uint64_t start_ts
    uint64_t commit_ts
    Py_ssize_t writes_start  # into the fingerprints: checked writes first, then reads
    Py_ssize_t reads_start
    Py_ssize_t reads_end
    int retention
    uint16_t mask
    uint16_t status


cdef struct Judged:
    # One entry. Most of its transactions read the same key: the latest one, and its fingerprint.
    Blob read
    Print read_name
    Parsed* parsed
    Py_ssize_t count
    Py_ssize_t parsed_capacity
    Print* prints
    Py_ssize_t print_count
    Py_ssize_t prints_capacity
    Py_ssize_t landed_keys
    Py_ssize_t[CLASS_COUNT] landed_requests


cdef struct Memory:
    uint64_t window_ms
    uint64_t[CLASS_COUNT] retention_ms
    uint32_t[CLASS_COUNT] rows_max
    Table keys
    Table requests
    Chain by_age
    Chain[CLASS_COUNT] by_class
    uint64_t floor
    uint64_t[CLASS_COUNT] class_floors
    uint64_t last_commit_ts
    uint64_t before  # what is newer belongs to the row that is being made
    uint64_t held_now
    Row* rows
    Py_ssize_t rows_start
    Py_ssize_t rows_end
    Py_ssize_t rows_capacity
    uint64_t* expired
    Py_ssize_t expired_count
    Py_ssize_t expired_capacity


cdef class Resolver:
    cdef Memory memory
    cdef Judged judged


# --- the hash tables: open addressing over the positions of the nodes --------------------------


cdef inline int allocate(Table* table, uint32_t capacity) except -1:
    table.capacity = capacity
    # Four sevenths full at most: runs stay short, and there is always an empty slot to end one.
    table.slot_count = capacity + capacity // 4 * 3 + 1
    table.nodes = <Node*>calloc(<size_t>capacity + 1, sizeof(Node))
    table.slots = <uint32_t*>calloc(table.slot_count, sizeof(uint32_t))
    if table.nodes == NULL or table.slots == NULL:
        raise MemoryError()
    return 0


cdef inline size_t table_bytes(Table* table) noexcept nogil:
    return (table.capacity + <size_t>1) * sizeof(Node) + table.slot_count * sizeof(uint32_t)


cdef inline uint64_t spread(const Print* name) noexcept nogil:
    return (name.high ^ rotate_left(name.low, 32)) * <uint64_t>0x9FB21C651E98DF25


cdef inline uint32_t home(Table* table, uint64_t hashed) noexcept nogil:
    return <uint32_t>(((hashed >> 32) * table.slot_count) >> 32)


cdef inline uint32_t tag(uint64_t hashed) noexcept nogil:
    return <uint32_t>hashed & ~<uint32_t>POSITION_MASK


cdef inline void expect(Table* table, const Print* name) noexcept nogil:
    """Fetch the slot while the rest of the entry is read: in a large table it is a cache miss."""
    prefetch(&table.slots[home(table, spread(name))])


cdef inline uint32_t following(Table* table, uint32_t slot) noexcept nogil:
    return slot + 1 if slot + 1 != table.slot_count else 0


cdef inline uint32_t steps(Table* table, uint32_t start, uint32_t end) noexcept nogil:
    return end - start if end >= start else end + table.slot_count - start


cdef inline Node* find(Table* table, const Print* name) noexcept nogil:
    cdef uint64_t hashed = spread(name)
    cdef uint32_t slot = home(table, hashed), wanted = tag(hashed), word = table.slots[slot]
    cdef Node* node
    while word != 0:
        # The tag spares nearly every look at a node that is another's, a cache miss each.
        if word & ~<uint32_t>POSITION_MASK == wanted:
            node = &table.nodes[word & POSITION_MASK]
            if node.name.high == name.high and node.name.low == name.low:
                return node
        slot = following(table, slot)
        word = table.slots[slot]
    return NULL


cdef inline uint32_t insert(Table* table, const Print* name) noexcept nogil:
    """A node for a name that the table does not hold; the caller has seen to it that one is free."""
    cdef uint64_t hashed = spread(name)
    cdef uint32_t slot = home(table, hashed), position = table.free
    if position != 0:
        table.free = table.nodes[position].next
    else:
        table.touched += 1
        position = table.touched
    table.nodes[position].name = name[0]
    while table.slots[slot] != 0:
        slot = following(table, slot)
    table.slots[slot] = tag(hashed) | position
    return position


cdef inline void discard(Table* table, uint32_t position) noexcept nogil:
    """Later members of the run move into the hole, so searches never meet a gravestone."""
    cdef uint32_t hole = home(table, spread(&table.nodes[position].name)), slot, word, start
    while table.slots[hole] & POSITION_MASK != position:
        hole = following(table, hole)
    slot = following(table, hole)
    word = table.slots[slot]
    while word != 0:
        start = home(table, spread(&table.nodes[word & POSITION_MASK].name))
        if steps(table, start, slot) >= steps(table, hole, slot):
            table.slots[hole] = word
            hole = slot
        slot = following(table, slot)
        word = table.slots[slot]
    table.slots[hole] = 0
    table.nodes[position].next = table.free
    table.free = position


cdef inline void append(Table* table, Chain* chain, uint32_t position) noexcept nogil:
    table.nodes[position].next = 0
    if chain.newest != 0:
        table.nodes[chain.newest].next = position
    else:
        chain.oldest = position
    chain.newest = position
    chain.count += 1


cdef inline void unlink_key(Memory* memory, Node* node) noexcept nogil:
    cdef Chain* chain = &memory.by_age
    cdef Node* nodes = memory.keys.nodes
    if node.other != 0:
        nodes[node.other].next = node.next
    else:
        chain.oldest = node.next
    if node.next != 0:
        nodes[node.next].other = node.other
    else:
        chain.newest = node.other
    chain.count -= 1


# --- rows: which of them are still needed ------------------------------------------------------


cdef inline void release(Memory* memory, uint64_t commit_ts, uint64_t count) noexcept nogil:
    """The row of that commit holds so much less; a row that holds nothing expires."""
    if commit_ts > memory.before:
        memory.held_now -= count
        return
    cdef Py_ssize_t low = memory.rows_start, high = memory.rows_end, middle
    while low < high:
        middle = (low + high) >> 1
        if memory.rows[middle].id < commit_ts:
            low = middle + 1
        else:
            high = middle
    memory.rows[low].held -= count
    if memory.rows[low].held == 0:
        expire(memory, memory.rows[low].id)
        while memory.rows_start < memory.rows_end and memory.rows[memory.rows_start].held == 0:
            memory.rows_start += 1


cdef inline void expire(Memory* memory, uint64_t row_id) noexcept nogil:
    memory.expired[memory.expired_count] = row_id
    memory.expired_count += 1


cdef inline void add_row(Memory* memory, uint64_t row_id) noexcept nogil:
    if memory.held_now == 0:
        expire(memory, row_id)
        return
    memory.rows[memory.rows_end].id = row_id
    memory.rows[memory.rows_end].held = memory.held_now
    memory.rows_end += 1


cdef inline uint8_t* store_print(uint8_t* at, const Print* name) noexcept nogil:
    return store_u64(store_u64(at, name.high), name.low)


cdef inline void load_print(Print* name, const uint8_t* at) noexcept nogil:
    name.high = load_u64(at)
    name.low = load_u64(at + 8)
