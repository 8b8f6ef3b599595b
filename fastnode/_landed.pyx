# cython: language_level=3
"""What has landed, in C: rows, counters and marks for the engine, and what happens to group heads.

`_landed_ref.py` is the readable version and owns the types. Writes are read where they lie in their
entry; a bytes object is made of a key or a value when it is handed on, and of a counter or a mark
once for all that is added to it. Who lands is decided in `_occ.pyx`.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLong
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset

from fastnode._core cimport (
    KIND_ADD,
    KIND_DELETE,
    KIND_DROP,
    KIND_FRESH_DELETE,
    KIND_FRESH_PUT,
    KIND_MAX,
    KIND_PUT,
    KIND_TOUCH,
    is_above,
)
from fastnode._entry cimport Blob, Entry, Place, Write, is_equal, walk_write, write_count
from fastnode._held cimport HeldBatch
from fastnode._keys cimport address, load_u64, store_u64

from fastnode import _keys_ref as _keys_types
from fastnode import _landed_ref as _ref
from fastnode import _occ_ref as _occ_types

cdef extern from *:
    bint add_overflows "__builtin_add_overflow"(
        int64_t one, int64_t other, int64_t* total
    ) noexcept nogil

cdef long _APPLIED = _occ_types.APPLIED
cdef bytes _FAMILY_GROUP = _keys_types.FAMILY_GROUP
cdef bytes _FAMILY_STATE = _keys_types.FAMILY_STATE
cdef bytes _FAMILY_TIMER = _keys_types.FAMILY_TIMER
cdef object _HeadChanges = _ref.HeadChanges
cdef object _new = tuple.__new__

assert POSITION_BYTES == _keys_types.POSITION_BYTES
assert FAMILY_BYTES == _ref.FAMILY_BYTES
assert FAMILIES_MAX == _ref.FAMILIES_MAX


def write_landed(Entry entry not None, list outcomes not None, batch, sums):
    cdef Gathered gathered
    check_outcomes(entry, outcomes)
    gathered.row_count = gathered.family_count = gathered.fold_count = 0
    gathered.rows = <Filed*>malloc(max(entry.write_count, 1) * sizeof(Filed))
    if gathered.rows == NULL:
        raise MemoryError()
    try:
        return gather(&gathered, entry, outcomes, batch, sums)
    finally:
        free(gathered.rows)


cdef bint gather(
    Gathered* gathered, Entry entry, list outcomes, object batch, object sums
) except -1:
    cdef Py_ssize_t index
    cdef const uint8_t* at
    cdef const uint8_t* row
    cdef Write write
    cdef bint changes_heads = False, receives_first
    for index in range(entry.count):
        if not has_landed(outcomes, index):
            continue
        at = entry.places[index].writes
        receives_first = not takes_timers(&entry.places[index])
        for _ in range(write_count(&entry.places[index])):
            row = at
            at = walk_write(at, &write)
            if write.kind == KIND_TOUCH:
                changes_heads = True
            elif write.kind == KIND_ADD or write.kind == KIND_MAX:
                if not fold(gathered, &write):
                    fold_up(gathered, sums)
                    fold(gathered, &write)
            elif write.kind == KIND_DROP:
                hand_on(gathered, batch, entry)
                fold_up(gathered, sums)
                drop(batch, sums, &write)
                changes_heads = True
            elif not file_row(gathered, row, &write.key, receives_first):
                hand_on(gathered, batch, entry)
                file_row(gathered, row, &write.key, receives_first)
    hand_on(gathered, batch, entry)
    fold_up(gathered, sums)
    return changes_heads


cdef int check_outcomes(Entry entry, list outcomes) except -1:
    if len(outcomes) != entry.count:
        raise ValueError("an outcome for each transaction")
    return 0


# Between two looks at the list Python code runs, which could change it.
@cython.boundscheck(True)
cdef bint has_landed(list outcomes, Py_ssize_t index) except -1:
    cdef tuple outcome = outcomes[index]
    return PyLong_AsLong(outcome[0]) == _APPLIED


cdef int drop(object batch, object sums, const Write* write) except -1:
    cdef bytes start = slice_of(write.key.at, write.key.size)
    cdef bytes end = slice_of(write.value.at, write.value.size)
    batch.delete_range(start, end)
    sums.drop(start, end)
    return 0


cdef bint takes_timers(const Place* place) noexcept:
    cdef const uint8_t* at = place.writes
    cdef Write write
    for _ in range(write_count(place)):
        at = walk_write(at, &write)
        if write.kind == KIND_FRESH_DELETE and begins_with(&write.key, _FAMILY_TIMER):
            return True
    return False


# --- rows: those of one family together --------------------------------------------------------


cdef bint file_row(
    Gathered* gathered, const uint8_t* row, const Blob* key, bint is_first
) noexcept nogil:
    """Behind the rows of its family; False if there is no room for another family."""
    cdef Family wanted
    cdef Family* family
    cdef Py_ssize_t index, at = gathered.row_count
    read_family(&wanted, key)
    for index in range(gathered.family_count):
        family = &gathered.families[index]
        if (
            family.first == wanted.first
            and family.last == wanted.last
            and family.size == wanted.size
        ):
            gathered.rows[family.newest].next = at
            break
    else:
        if gathered.family_count == FAMILIES_MAX:
            return False
        wanted.oldest = at
        family = &gathered.families[gathered.family_count]
        family[0] = wanted
        gathered.family_count += 1
    family.newest = at
    gathered.rows[at].write = row
    gathered.rows[at].next = -1
    gathered.rows[at].is_first = is_first
    gathered.row_count += 1
    return True


cdef inline void read_family(Family* family, const Blob* key) noexcept nogil:
    cdef uint8_t[FAMILY_BYTES] padded
    cdef const uint8_t* at = key.at
    family.size = min(key.size, FAMILY_BYTES)
    if family.size < FAMILY_BYTES:
        memset(padded, 0, FAMILY_BYTES)
        memcpy(padded, at, family.size)
        at = padded
    # Two words that overlap by a byte.
    memcpy(&family.first, at, sizeof(family.first))
    memcpy(&family.last, at + FAMILY_BYTES - sizeof(family.last), sizeof(family.last))


cdef int hand_on(Gathered* gathered, object batch, Entry entry) except -1:
    if type(batch) is HeldBatch:
        return note_rows(gathered, batch, entry)
    cdef Py_ssize_t index, at
    cdef Write write
    put, delete = batch.put, batch.delete
    for index in range(gathered.family_count):
        at = gathered.families[index].oldest
        while at >= 0:
            walk_write(gathered.rows[at].write, &write)
            key = slice_of(write.key.at, write.key.size)
            if is_put(write.kind):
                put(key, slice_of(write.value.at, write.value.size))
            else:
                delete(key)
            at = gathered.rows[at].next
    gathered.row_count = gathered.family_count = 0
    return 0


cdef int note_rows(Gathered* gathered, HeldBatch batch, Entry entry) except -1:
    """Of a row that is held no object is made."""
    cdef Py_ssize_t index, at
    cdef Write write
    batch.owners.append(entry)
    for index in range(gathered.family_count):
        at = gathered.families[index].oldest
        while at >= 0:
            walk_write(gathered.rows[at].write, &write)
            batch.note(
                write.key.at,
                write.key.size,
                write.value.at if is_put(write.kind) else NULL,
                write.value.size,
                gathered.rows[at].is_first
                and is_put(write.kind)
                and begins_with(&write.key, _FAMILY_STATE),
            )
            at = gathered.rows[at].next
    gathered.row_count = gathered.family_count = 0
    return 0


# --- counters and marks ------------------------------------------------------------------------


cdef bint fold(Gathered* gathered, const Write* write) noexcept nogil:
    """Add to a counter, or raise a mark. False if there is no room for another one, or none for the
    sum: then all have to be folded up first.
    """
    cdef Fold* one
    cdef int64_t delta = 0, total
    cdef Py_ssize_t index
    if write.kind == KIND_ADD:
        delta = <int64_t>load_u64(write.value.at)
    for index in range(gathered.fold_count):
        one = &gathered.folds[index]
        if one.kind == write.kind and is_equal(&one.key, &write.key):
            if write.kind == KIND_ADD:
                if add_overflows(one.delta, delta, &total):
                    return False
                one.delta = total
            elif is_above(write.value.at, write.value.size, one.value.at, one.value.size):
                one.value = write.value
            return True
    if gathered.fold_count == FOLDS_MAX:
        return False
    one = &gathered.folds[gathered.fold_count]
    one.kind, one.key, one.delta, one.value = write.kind, write.key, delta, write.value
    gathered.fold_count += 1
    return True


cdef int fold_up(Gathered* gathered, object sums) except -1:
    """In the order of the first change of each."""
    cdef Py_ssize_t index
    cdef Fold* one
    cdef bytes key, value
    cdef dict added, raised
    if gathered.fold_count == 0:
        return 0
    added, raised = sums.added, sums.raised
    for index in range(gathered.fold_count):
        one = &gathered.folds[index]
        key = slice_of(one.key.at, one.key.size)
        if one.kind == KIND_ADD:
            before = added.get(key)
            added[key] = one.delta if before is None else before + one.delta
        else:
            value = slice_of(one.value.at, one.value.size)
            before = raised.get(key)
            if before is None or <bytes>before < value:
                raised[key] = value
    gathered.fold_count = 0
    return 0


def write_sums(dict added not None, dict raised not None, dict rows not None, read, put):
    cdef dict planned = {}
    cdef bytes key, stored, mark
    for key, delta in added.items():
        stored = rows[key] if key in rows else read(key)
        planned[key] = encode_counter(delta if stored is None else decode_counter(stored) + delta)
    for key, mark in raised.items():
        stored = rows[key] if key in rows else read(key)
        planned[key] = mark if stored is None or stored < mark else stored
    for key, value in planned.items():
        put(key, value)
    return planned


cdef inline object decode_counter(bytes stored):
    if PyBytes_GET_SIZE(stored) == sizeof(int64_t):
        return <int64_t>load_u64(address(stored))
    return int.from_bytes(stored, "big", signed=True)


cdef inline bytes encode_counter(int64_t value):
    cdef bytes encoded = PyBytes_FromStringAndSize(NULL, sizeof(value))
    store_u64(address(encoded), <uint64_t>value)
    return encoded


# --- group heads -------------------------------------------------------------------------------


def head_changes(list entries not None, dict known not None):
    cdef list outcomes, dropped = []
    cdef dict touched = {}, groups = {}, states = {}
    cdef Entry entry
    for entry, outcomes in entries:
        check_outcomes(entry, outcomes)
        note_dropped(dropped, entry, outcomes)
    if dropped:
        known = {}
    for entry, outcomes in entries:
        note_touched(touched, entry, outcomes, known)
    for entry, outcomes in entries:
        note_changes(groups, states, entry, outcomes)
    return _new(_HeadChanges, (touched, groups, states, dropped))


cdef int note_dropped(list dropped, Entry entry, list outcomes) except -1:
    cdef Py_ssize_t index
    cdef const uint8_t* at
    cdef Write write
    for index in range(entry.count):
        if not has_landed(outcomes, index):
            continue
        at = entry.places[index].writes
        for _ in range(write_count(&entry.places[index])):
            at = walk_write(at, &write)
            if write.kind == KIND_DROP:
                dropped.append(
                    (
                        slice_of(write.key.at, write.key.size),
                        slice_of(write.value.at, write.value.size),
                    )
                )
    return 0


cdef int note_touched(dict touched, Entry entry, list outcomes, dict known) except -1:
    cdef Py_ssize_t index
    cdef const uint8_t* first
    cdef const uint8_t* at
    cdef Write write
    cdef bint only_files
    cdef bytes key, row
    for index in range(entry.count):
        if not has_landed(outcomes, index):
            continue
        only_files = is_filing(&entry.places[index], &first)
        at = entry.places[index].writes
        for _ in range(write_count(&entry.places[index])):
            at = walk_write(at, &write)
            if write.kind == KIND_TOUCH:
                key = slice_of(write.key.at, write.key.size)
                row = known.get(key) if only_files else None
                if row is None or not is_before(row, first):
                    touched[key] = None
    return 0


cdef bint is_filing(const Place* place, const uint8_t** first) noexcept:
    """Whether a transaction does nothing to groups but file messages; where the first of them is."""
    cdef bint only_files = True
    cdef const uint8_t* at = place.writes
    cdef const uint8_t* position
    cdef Write write
    first[0] = NULL
    for _ in range(write_count(place)):
        at = walk_write(at, &write)
        if begins_with(&write.key, _FAMILY_GROUP):
            position = position_in(&write.key)
            if not is_put(write.kind):
                only_files = False
            elif first[0] == NULL or memcmp(position, first[0], POSITION_BYTES) < 0:
                first[0] = position
        elif begins_with(&write.key, _FAMILY_STATE):
            only_files = False
    return only_files


cdef inline const uint8_t* position_in(const Blob* key) noexcept nogil:
    """At the end of a key of an index of messages, whose family alone is longer."""
    return key.at + key.size - POSITION_BYTES


cdef inline bint is_before(bytes row, const uint8_t* position) noexcept:
    if position == NULL:
        return True
    return (
        PyBytes_GET_SIZE(row) >= POSITION_BYTES
        and memcmp(address(row), position, POSITION_BYTES) < 0
    )


cdef int note_changes(dict groups, dict states, Entry entry, list outcomes) except -1:
    cdef Py_ssize_t index
    cdef const uint8_t* at
    cdef Write write
    for index in range(entry.count):
        if not has_landed(outcomes, index):
            continue
        at = entry.places[index].writes
        for _ in range(write_count(&entry.places[index])):
            at = walk_write(at, &write)
            if write.kind == KIND_DROP:
                forget_groups(groups, &write)
            elif is_row(write.kind):
                note_change(groups, states, &write)
    return 0


cdef int note_change(dict groups, dict states, const Write* write) except -1:
    cdef Py_ssize_t family = PyBytes_GET_SIZE(_FAMILY_GROUP)
    cdef bytes position, group
    if begins_with(&write.key, _FAMILY_GROUP):
        position = slice_of(position_in(&write.key), POSITION_BYTES)
        group = slice_of(write.key.at + family, max(write.key.size - POSITION_BYTES - family, 0))
        changed = groups.get(group)
        if changed is None:
            groups[group] = {position: is_put(write.kind)}
        else:
            (<dict>changed)[position] = is_put(write.kind)
    elif begins_with(&write.key, _FAMILY_STATE):
        position = slice_of(position_in(&write.key), POSITION_BYTES)
        states[position] = (
            slice_of(write.value.at, write.value.size) if is_put(write.kind) else None
        )
    return 0


cdef int forget_groups(dict groups, const Write* write) except -1:
    cdef bytes start = slice_of(write.key.at, write.key.size)
    cdef bytes end = slice_of(write.value.at, write.value.size)
    for group in [group for group in groups if start <= _FAMILY_GROUP + <bytes>group < end]:
        del groups[group]
    return 0


cdef inline bint begins_with(const Blob* key, bytes prefix) noexcept:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(prefix)
    return key.size >= size and memcmp(key.at, address(prefix), size) == 0


cdef inline bint is_put(long kind) noexcept nogil:
    return kind == KIND_PUT or kind == KIND_FRESH_PUT


cdef inline bint is_row(long kind) noexcept nogil:
    return is_put(kind) or kind == KIND_DELETE or kind == KIND_FRESH_DELETE


cdef inline bytes slice_of(const uint8_t* at, Py_ssize_t size):
    return PyBytes_FromStringAndSize(<const char*>at, size)
