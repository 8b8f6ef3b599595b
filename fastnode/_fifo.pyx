# cython: language_level=3
"""What the leader of a FIFO queue remembers, in C.

`_fifo_ref.py` is the readable version and owns the types. What is saved here is the interpreter
between one message and the next.
"""

cimport cython
from cpython.bytes cimport PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint64_t

from fastnode._core cimport sixteen
from fastnode._deliver cimport (
    PLACE_BYTES,
    Named,
    Place,
    bytes_at,
    key_of,
    named,
    part,
    position_at,
    position_of,
    read_named,
    read_place,
)
from fastnode._keys cimport address, load_u16, load_u64

from heapq import heappop, heappush

from fastnode import _core_ref as _core_types
from fastnode import _fifo_ref as _ref
from fastnode._keys import text

cdef enum:
    HEAD_BYTES = 18

cdef type _Head = _ref.Head
cdef Py_ssize_t _FIRST_PAGE_ROWS = _ref.FIRST_PAGE_ROWS
cdef Py_ssize_t _PAGE_ROWS_MAX = _ref.PAGE_ROWS_MAX
cdef tuple _NO_HORIZON = _ref.NO_HORIZON
cdef object _FRESH_DELETE = _core_types.FRESH_DELETE
cdef object _TOUCH = _core_types.TOUCH


@cython.auto_pickle(False)
cdef class Ready:
    def __cinit__(self, Py_ssize_t page_max):
        self.received, self.unreceived = [], []
        self.known, self.taken = {}, set()
        self.horizon_place = (0, 0)
        self.page_max = page_max
        self.size_max = 4 * page_max

    @property
    def horizon(self):
        return self.horizon_place

    @property
    def has_taken(self):
        return bool(self.taken)

    def needs_page(self, now, delay):
        return self.lacks_page(now, delay)

    cdef bint lacks_page(self, now, delay) except -1:
        if self.horizon_place[0] > now:
            return False
        head = self.first(delay)
        return head is None or (due_at(head, delay), part(head, 1)) >= self.horizon_place

    def load(self, rows not None, *, bint is_last):
        cdef list heads = [head_at(bytes_at(row, 0), bytes_at(row, 1)) for row in rows]
        self.horizon_place = _NO_HORIZON
        if not is_last:
            if not heads:
                raise IndexError("only the last page is empty")
            last = heads[len(heads) - 1]
            self.horizon_place = (part(last, 0), part(last, 1) + 1)
        self.size_max = max(self.size_max, 2 * (len(self.known) + len(heads)))
        for head in heads:
            self.keep(head)

    def put(self, head not None):
        self.keep(head)

    def renew(self, str group_id not None, bytes row):
        self.keep_row(group_id, row)

    cdef int keep_row(self, str group_id, bytes row) except -1:
        cdef const uint8_t* at
        if row is None:
            self.known.pop(group_id, None)
            return 0
        if PyBytes_GET_SIZE(row) != HEAD_BYTES:
            raise ValueError("a head is a position and a time")
        at = address(row)
        position = position_at(at)
        return self.keep(named(_Head, (load_u64(at + PLACE_BYTES), position, group_id)))

    def renew_all(self, dict heads not None, known not None, read not None):
        for group_id, key in heads.items():
            self.keep_row(group_id, known[key] if key in known else read(key))

    def sent(self, str group_id not None, position):
        if group_id in self.known or group_id in self.taken:
            return True
        sent_at = position >> 16
        if (sent_at, position) >= self.horizon_place:
            return True
        if self.horizon_place[0] != _NO_HORIZON[0]:
            return False
        self.keep(named(_Head, (sent_at, position, group_id)))
        return True

    def take(self, now, delay):
        return self.take_first(now, delay)

    cdef object take_first(self, now, delay):
        head = self.first(delay)
        if head is None or due_at(head, delay) > now:
            return None
        heappop(self.unreceived if is_unreceived(head) else self.received)
        del self.known[part(head, 2)]
        self.taken.add(part(head, 2))
        return head

    def take_many(
        self, now, Py_ssize_t limit, bytes head_prefix not None, positions_of not None,
        list positions not None, list groups not None, dict heads not None
    ):
        cdef object head, group_id, found
        while len(positions) < limit:
            if self.lacks_page(now, 0):
                return True
            head = self.take_first(now, 0)
            if head is None:
                return False
            group_id = part(head, 2)
            heads[group_id] = key = head_prefix + text(group_id)
            found = positions_of(key, part(head, 1), limit - len(positions))
            for position in found:
                positions.append(position)
                groups.append(group_id)
        return False

    def claim(self, str group_id not None):
        if group_id in self.taken:
            return False
        self.known.pop(group_id, None)
        self.taken.add(group_id)
        return True

    def give_back(self, group_ids not None):
        for group_id in group_ids:
            self.taken.discard(group_id)

    def next_at(self, delay):
        head = self.first(delay)
        due = None if head is None else due_at(head, delay)
        if self.horizon_place[0] == _NO_HORIZON[0]:
            return due
        return self.horizon_place[0] if due is None else min(due, self.horizon_place[0])

    def has_due(self, now, delay):
        head = self.first(delay)
        return head is not None and due_at(head, delay) <= now

    cdef int keep(self, head) except -1:
        group_id = part(head, 2)
        self.known.pop(group_id, None)
        if group_id in self.taken or head >= self.horizon_place:
            return 0
        self.known[group_id] = head
        heappush(self.unreceived if is_unreceived(head) else self.received, head)
        if len(self.received) + len(self.unreceived) > self.size_max:
            self.shrink()
        return 0

    cdef object first(self, delay):
        """The head that becomes due first."""
        one, other = self.top(self.received), self.top(self.unreceived)
        if one is None or other is None:
            return other if one is None else one
        is_one = (part(one, 0), part(one, 1)) < (part(other, 0) + delay, part(other, 1))
        return one if is_one else other

    cdef object top(self, list heap):
        """The first that is still true."""
        while heap:
            if self.known.get(part(heap[0], 2)) is heap[0]:
                return heap[0]
            heappop(heap)
        return None

    cdef int shrink(self) except -1:
        cdef list heads = sorted(self.known.values()), kept = heads[:self.page_max]
        if len(heads) > self.page_max:
            self.horizon_place = heads[self.page_max][:2]
        self.size_max = 4 * self.page_max
        self.known = {part(head, 2): head for head in kept}
        self.received = [head for head in kept if not is_unreceived(head)]
        self.unreceived = [head for head in kept if is_unreceived(head)]
        return 0


cdef object head_at(bytes key, bytes group_id):
    """As a ready row has it."""
    cdef const uint8_t* at
    if PyBytes_GET_SIZE(key) < HEAD_BYTES:
        raise ValueError("a key ends with a time and a position")
    at = address(key) + PyBytes_GET_SIZE(key) - HEAD_BYTES
    position = position_at(at + 8)
    return named(_Head, (load_u64(at), position, group_id.decode()))


cdef inline bint is_unreceived(head) except -1:
    cdef Place place
    read_place(part(head, 1), &place)
    return part(head, 0) == place.commit_ts


cdef inline object due_at(head, delay):
    return part(head, 0) + delay if delay and is_unreceived(head) else part(head, 0)


@cython.auto_pickle(False)
cdef class Fresh:
    def __cinit__(
        self, Py_ssize_t bytes_max, Py_ssize_t missed_max, Py_ssize_t record_bytes, *, bint is_empty
    ):
        self.rows = _FIRST_PAGE_ROWS
        self.record_bytes = record_bytes
        self.bytes_max, self.missed_max = bytes_max, missed_max
        self.records = {}
        self.forget_all()
        self.reaches_end = is_empty

    @property
    def page_rows(self):
        return self.rows

    @property
    def kept_bytes(self):
        return self.kept + len(self.records) * self.record_bytes

    def add(self, position, bytes record not None):
        if not self.reaches_end or position < self.next_position:
            return False
        if self.kept + PyBytes_GET_SIZE(record) > self.bytes_max:
            self.reaches_end = False
            return False
        self.keep(position, record)
        self.next_position = position + 1
        return True

    def page_begin(self, positions not None):
        if self.reaches_end or len(positions) == 0 or max(positions) < self.next_position:
            return None
        if self.kept > self.bytes_max // 2:
            return None
        return max(self.next_position, min(positions))

    def load(
        self, rows not None, received not None, bytes state_prefix not None, set held not None
    ):
        cdef Py_ssize_t size = 0, count = len(rows), fitting
        cdef bint is_full = False
        cdef Place place
        cdef bytes record
        for row in rows:
            record = bytes_at(row, 1)
            size += PyBytes_GET_SIZE(record)
            is_full = is_full or self.kept + PyBytes_GET_SIZE(record) > self.bytes_max
            if is_full:
                continue
            place = place_at(bytes_at(row, 0))
            position = position_of(&place)
            self.next_position = position + 1
            if position not in received and key_of(state_prefix, &place) not in held:
                self.keep(position, record)
        self.reaches_end = count < self.rows and not is_full
        fitting = self.bytes_max * count // (2 * size) if size else 1
        self.rows = max(1, min(fitting, 4 * self.rows, _PAGE_ROWS_MAX))

    def take(self, positions not None, bytes data_prefix not None, read not None):
        cdef list items = [], missing = [], wanted = []
        cdef Py_ssize_t index
        cdef Place place
        cdef bytes record
        for position in positions:
            record = self.records.pop(position, None)
            if record is None:
                read_place(position, &place)
                missing.append(len(items))
                wanted.append(key_of(data_prefix, &place))
            else:
                self.kept -= PyBytes_GET_SIZE(record)
            items.append((position, record))
        self.missed = 0 if len(missing) < len(items) else self.missed + len(missing)
        if self.missed >= self.missed_max:
            self.forget_all()
        if missing:
            found = tuple(read(wanted))
            for index in range(len(missing)):
                record = part(found, index)
                assert record is not None, "a row of a group without its message"
                items[missing[index]] = (part(items[missing[index]], 0), record)
        return items

    def let_go(self):
        self.forget_all()

    cdef int keep(self, position, bytes record) except -1:
        self.records[position] = record
        self.kept += PyBytes_GET_SIZE(record)
        return 0

    cdef int forget_all(self) except -1:
        self.records.clear()
        self.kept = self.missed = 0
        self.next_position = 0
        self.reaches_end = False
        return 0


cdef Place place_at(bytes key) except *:
    """What a key ends with."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(key)
    cdef Place place
    if size < PLACE_BYTES:
        raise ValueError("a key ends with a position")
    place.commit_ts = load_u64(address(key) + size - PLACE_BYTES)
    place.entry = load_u16(address(key) + size - 2)
    return place


@cython.auto_pickle(False)
cdef class Handed:
    def __cinit__(self, Py_ssize_t count_max):
        self.handed = {}
        self.count_max = count_max

    def add(self, positions not None, groups not None, uint64_t nonce):
        cdef tuple places = tuple(positions), ids = tuple(groups)
        cdef Py_ssize_t index
        cdef object known = None, number = nonce
        if len(self.handed) + len(places) > self.count_max:
            self.handed.clear()
        for index in range(len(places)):
            group_id = part(ids, index)
            # Mostly all are of one group.
            if known is None or part(known, 0) is not group_id:
                known = (group_id, number)
            self.handed[places[index]] = known

    def forget(self, positions not None):
        for position in positions:
            self.handed.pop(position, None)

    def hidden(
        self,
        tuple receipts not None,
        handles not None,
        dict scheduled not None,
        now,
        tuple prefixes not None,
        set held not None,
    ):
        cdef bytes secret = bytes_at(receipts, 0)
        cdef const uint8_t* secret_key = sixteen(secret, "a hash key")
        cdef int64_t partition = part(receipts, 1)
        cdef uint64_t generation = part(receipts, 2)
        cdef bytes state_prefix = bytes_at(prefixes, 0), group_prefix = bytes_at(prefixes, 1)
        cdef bytes head_prefix = bytes_at(prefixes, 2)
        cdef Named named_by
        cdef dict times = {}, touched = {}, heads = {}
        cdef list keys = [], writes = []
        cdef bytes rows
        for handle in handles:
            if not read_named(secret_key, partition, generation, handle, &named_by):
                return None
            position = position_of(&named_by.place)
            known, visible_at = self.handed.get(position), scheduled.get(position)
            if known is None or visible_at is None or visible_at <= now:
                return None
            key = key_of(state_prefix, &named_by.place)
            if <uint64_t>part(known, 1) != named_by.nonce or key in held:
                return None
            if position in times:
                continue
            times[position] = visible_at
            keys.append(key)
            rows = touched.get(part(known, 0))
            if rows is None:
                rows = touched[part(known, 0)] = group_prefix + text(part(known, 0))
            writes.append((_FRESH_DELETE, key_of(rows, &named_by.place), b""))
        for group_id in touched:
            heads[group_id] = head_prefix + text(group_id)
            writes.append((_TOUCH, heads[group_id], b""))
        return times, tuple(keys), heads, writes
