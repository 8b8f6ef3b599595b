# cython: language_level=3
"""The Query protocol without its names, in C: one pass over a form, one buffer for an answer. The
twin `_query_ref.py` documents what is done; tests hold the two equal.

A parameter is matched against the plan where it lies; only the values that fill a member become
objects. What is rare (long numbers, characters that XML cannot carry) is left to the twin.
"""

from base64 import b64encode as _b64encode

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItemWithError, PyDict_SetDefault, PyDict_SetItem
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memchr, memcmp, memcpy
from msgspec.structs import astuple as _astuple

from fastnode import _query_ref as _ref

cdef extern from "Python.h":
    str PyUnicode_DecodeUTF8(const char* octets, Py_ssize_t size, const char* errors)
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef enum:
    TAB = 9
    LINE_FEED = 10
    SPACE = 32
    QUOTE = 34
    PERCENT = 37
    AMPERSAND = 38
    PLUS = 43
    DOT = 46
    ZERO = 48
    NINE = 57
    LESS = 60
    EQUALS = 61
    GREATER = 62
    # The first octet of the two characters below U+10000 that are not one.
    NONCHARACTER = 0xEF
    NOT_HEX = 255
    NAME_SIZE_MAX = 6
    BUFFER_BYTES = 1024

cdef object _FormError = _ref.FormError
cdef object _missing_half = _ref.missing_half
cdef object _escape_rare = _ref.escape_xml
cdef object _parse_number = _ref.parse_number
cdef str _KEY = _ref.KEY
cdef str _VALUE = _ref.VALUE
cdef int _NUMBER = _ref.NUMBER
cdef int _TEXT = _ref.TEXT
cdef int _STRUCT = _ref.STRUCT
cdef int _OCTETS = _ref.OCTETS
cdef int _ONE = _ref.ONE
cdef int _LIST = _ref.LIST
cdef int _MAP = _ref.MAP
cdef Py_ssize_t _PARAMETERS_MAX = _ref.PARAMETERS_MAX
cdef str _TOO_MANY = "The request has too many parameters."
cdef Py_ssize_t _INDEX_DIGITS_MAX = _ref.INDEX_DIGITS_MAX

cdef uint8_t[256] _hex
cdef uint8_t[256] _care
cdef uint8_t[256][NAME_SIZE_MAX] _names  # of a plain octet, itself
cdef uint8_t[256] _name_sizes


cdef void _fill_tables():
    cdef int code
    for code in range(256):
        _hex[code] = NOT_HEX
        _care[code] = PLAIN if code >= SPACE or code == TAB or code == LINE_FEED else RARE
        _names[code][0] = code
        _name_sizes[code] = 1
    for code in range(16):
        _hex[ord("%x" % code)] = _hex[ord("%X" % code)] = code
    _care[NONCHARACTER] = RARE
    for code in b'&<>"\r':
        _fill_name(code, _escape_rare(chr(code)))


cdef void _fill_name(int code, bytes name):
    _care[code] = ESCAPED
    _name_sizes[code] = len(name)
    memcpy(&_names[code][0], PyBytes_AS_STRING(name), len(name))


_fill_tables()


# --- Forms --------------------------------------------------------------------------------------


cdef const uint8_t* take_pair(Pair* pair, const uint8_t* at, const uint8_t* stop) noexcept nogil:
    """One parameter; returns where the next begins, or NULL after the last."""
    cdef const uint8_t* end = <const uint8_t*>memchr(at, AMPERSAND, stop - at)
    cdef const uint8_t* next_pair = end
    cdef const uint8_t* middle
    if end == NULL:
        end = stop
    else:
        next_pair += 1
    pair.name = at
    middle = <const uint8_t*>memchr(at, EQUALS, end - at)
    if middle == NULL:
        middle = end
        pair.value = end
    else:
        pair.value = middle + 1
    pair.name_size = middle - at
    pair.value_size = end - pair.value
    return next_pair


cdef inline bint _is_escaped(const uint8_t* raw, Py_ssize_t size) noexcept nogil:
    return memchr(raw, PERCENT, size) != NULL or memchr(raw, PLUS, size) != NULL


cdef Py_ssize_t unescape(uint8_t* target, const uint8_t* raw, Py_ssize_t size) noexcept nogil:
    """The size of what was written, never more than was read; -1 for what is no escape."""
    cdef const uint8_t* stop = raw + size
    cdef const uint8_t* percent = find_or_stop(raw, stop, PERCENT)
    cdef const uint8_t* plus = find_or_stop(raw, stop, PLUS)
    cdef const uint8_t* end
    cdef uint8_t* at = target
    while raw < stop:
        end = plus if plus < percent else percent
        memcpy(at, raw, end - raw)
        at += end - raw
        raw = end
        if raw == stop:
            break
        if raw == plus:
            at[0] = SPACE
            raw += 1
            plus = find_or_stop(raw, stop, PLUS)
        else:
            if stop - raw < 3 or _hex[raw[1]] == NOT_HEX or _hex[raw[2]] == NOT_HEX:
                return -1
            at[0] = <uint8_t>(_hex[raw[1]] << 4 | _hex[raw[2]])
            raw += 3
            percent = find_or_stop(raw, stop, PERCENT)
        at += 1
    return at - target


cdef inline const uint8_t* find_or_stop(
    const uint8_t* at, const uint8_t* stop, int octet
) noexcept nogil:
    cdef const uint8_t* found = <const uint8_t*>memchr(at, octet, stop - at)
    return found if found != NULL else stop


cdef bytes _octets(const uint8_t* raw, Py_ssize_t* size):
    """Room for all, of which `size` says how much is used afterwards."""
    cdef bytes octets = PyBytes_FromStringAndSize(NULL, size[0])
    size[0] = unescape(<uint8_t*>PyBytes_AS_STRING(octets), raw, size[0])
    if size[0] < 0:
        raise _FormError("The request has a percent sign that begins no escape.")
    return octets


cdef str _text(const uint8_t* raw, Py_ssize_t size):
    """Raises UnicodeDecodeError, which the callers' callers make a FormError of."""
    cdef bytes octets
    if not _is_escaped(raw, size):
        return PyUnicode_DecodeUTF8(<const char*>raw, size, NULL)
    octets = _octets(raw, &size)
    return PyUnicode_DecodeUTF8(PyBytes_AS_STRING(octets), size, NULL)


cdef bytes _unescape_name(Pair* pair):
    """The owner of the octets that the name points to from now on."""
    cdef bytes octets = _octets(pair.name, &pair.name_size)
    pair.name = <const uint8_t*>PyBytes_AS_STRING(octets)
    return octets


def find_parameter(bytes raw not None, bytes name not None):
    try:
        return _find_parameter(raw, name)
    except UnicodeDecodeError:
        raise _FormError("The request is not in UTF-8.") from None


cdef str _find_parameter(bytes raw, bytes name):
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(raw)
    cdef const uint8_t* stop = at + PyBytes_GET_SIZE(raw)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(name), count = 0
    cdef bytes owner
    cdef Pair pair
    while at != NULL:
        at = take_pair(&pair, at, stop)
        count += 1
        if count > _PARAMETERS_MAX:
            raise _FormError(_TOO_MANY)
        if _is_escaped(pair.name, pair.name_size):
            owner = _unescape_name(&pair)
        if pair.name_size == size and not memcmp(pair.name, PyBytes_AS_STRING(name), size):
            return _text(pair.value, pair.value_size)
    return None


# --- Reading ------------------------------------------------------------------------------------


@cython.final
@cython.auto_pickle(False)
cdef class _Plan:
    """The fields of a Struct; which of them are more than one parameter; and the members that are
    empty lists rather than absent.
    """
    cdef list fields
    cdef list nested
    cdef list batches

    def __cinit__(self, plan):
        self.fields = [_Field(each) for each in plan]
        self.nested = [each for each in self.fields if (<_Field>each).is_nested]
        self.batches = [
            each.member for each in plan if each.many == _LIST and each.content == _STRUCT
        ]


@cython.final
@cython.auto_pickle(False)
cdef class _Field:
    cdef bytes parameter
    cdef const uint8_t* name
    cdef Py_ssize_t size
    cdef str member
    cdef int many
    cdef int content
    cdef bint is_nested
    cdef _Plan plan
    cdef object twin

    def __cinit__(self, twin):
        self.twin = twin
        self.parameter, self.member, self.many, self.content, plan = twin
        self.name = <const uint8_t*>PyBytes_AS_STRING(self.parameter)
        self.size = PyBytes_GET_SIZE(self.parameter)
        self.is_nested = self.many != _ONE or self.content == _STRUCT
        self.plan = _Plan(plan)


@cython.final
@cython.auto_pickle(False)
cdef class FormReader:
    cdef _Plan _plan

    def __cinit__(self, tuple plan not None):
        self._plan = _Plan(plan)

    def read(self, bytes raw not None):
        try:
            return self._read(raw)
        except UnicodeDecodeError:
            raise _FormError("The request is not in UTF-8.") from None

    cdef dict _read(self, bytes raw):
        cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(raw)
        cdef const uint8_t* stop = at + PyBytes_GET_SIZE(raw)
        cdef Pair pair
        cdef Py_ssize_t count = 0
        cdef bytes owner
        cdef dict members = {}
        while at != NULL:
            at = take_pair(&pair, at, stop)
            count += 1
            if count > _PARAMETERS_MAX:
                raise _FormError(_TOO_MANY)
            if _is_escaped(pair.name, pair.name_size):
                owner = _unescape_name(&pair)
            _put(members, self._plan, &pair, pair.name, pair.name_size)
        return _gathered(members, self._plan)


cdef int _put(
    dict members, _Plan plan, Pair* pair, const uint8_t* name, Py_ssize_t size
) except -1:
    """Fill in one parameter. `name` is what is left of its name at this depth. Until all are there,
    a list or a map is a dictionary by index, and members are those of a Struct in the making.
    """
    cdef const uint8_t* dot = <const uint8_t*>memchr(name, DOT, size)
    cdef Py_ssize_t head_size = size if dot == NULL else dot - name
    cdef Py_ssize_t rest_size = 0 if dot == NULL else size - head_size - 1
    cdef const uint8_t* rest = name + size - rest_size
    cdef _Field field
    cdef object each
    for each in plan.fields:
        field = <_Field>each
        if field.size != head_size or memcmp(field.name, name, head_size):
            continue
        if field.many != _ONE:
            _put_entry(members, field, pair, rest, rest_size)
        elif field.content == _STRUCT:
            _put(_inner(members, field.member), field.plan, pair, rest, rest_size)
        elif dot == NULL and PyDict_GetItemWithError(members, field.member) == NULL:
            PyDict_SetItem(members, field.member, _value(field, pair))
    return 0


cdef inline object _value(_Field field, Pair* pair):
    cdef int64_t number
    if field.content != _NUMBER:
        return _text(pair.value, pair.value_size)
    number = index_of(pair.value, pair.value_size)
    return number if number >= 0 else _parse_number(_text(pair.value, pair.value_size))


cdef int _put_entry(
    dict members, _Field field, Pair* pair, const uint8_t* name, Py_ssize_t size
) except -1:
    cdef const uint8_t* dot = <const uint8_t*>memchr(name, DOT, size)
    cdef int64_t index = index_of(name, size if dot == NULL else dot - name)
    cdef Py_ssize_t rest_size = 0 if dot == NULL else size - (dot - name) - 1
    cdef const uint8_t* rest = name + size - rest_size
    cdef dict entries
    if index == TOO_LARGE:
        return 0
    if index == NO_INDEX:
        index, rest, rest_size = 0, name, size
    if field.content == _STRUCT or field.many == _MAP:
        entries = _inner(members, field.member)
        return _put(_inner(entries, index), field.plan, pair, rest, rest_size)
    if rest_size == 0:
        entries = _inner(members, field.member)
        if index not in entries:
            entries[index] = _text(pair.value, pair.value_size)
    return 0


cdef int64_t index_of(const uint8_t* text, Py_ssize_t size) noexcept nogil:
    cdef int64_t index = 0
    cdef Py_ssize_t at
    if size == 0:
        return NO_INDEX
    for at in range(size):
        if text[at] < ZERO or text[at] > NINE:
            return NO_INDEX
        if at < _INDEX_DIGITS_MAX:
            index = index * 10 + text[at] - ZERO
    return index if size <= _INDEX_DIGITS_MAX else TOO_LARGE


cdef inline dict _inner(dict outer, object key):
    cdef dict inner
    cdef PyObject* found = PyDict_GetItemWithError(outer, key)
    if found != NULL:
        return <dict><object>found
    inner = {}
    PyDict_SetItem(outer, key, inner)
    return inner


cdef dict _gathered(dict members, _Plan plan):
    """Everything is there: lists and maps become what the twin makes of the same parameters."""
    cdef object each
    cdef PyObject* found
    for each in plan.nested:
        found = PyDict_GetItemWithError(members, (<_Field>each).member)
        if found != NULL:
            members[(<_Field>each).member] = _gathered_member(<dict><object>found, <_Field>each)
    for each in plan.batches:
        PyDict_SetDefault(members, each, [])
    return members


cdef object _gathered_member(dict inner, _Field field):
    cdef list entries
    if field.many == _ONE:
        return _gathered(inner, field.plan)
    entries = _in_order(inner)
    if field.many == _MAP:
        return _gathered_map(entries, field)
    if field.content != _STRUCT:
        return entries
    return [_gathered(<dict>entry, field.plan) for entry in entries]


cdef list _in_order(dict entries):
    """By index; clients nearly always send them so."""
    cdef int64_t last = -1, index
    for index in entries:
        if index < last:
            return [entries[each] for each in sorted(entries)]
        last = index
    return list(entries.values())


cdef dict _gathered_map(list entries, _Field field):
    cdef dict read = {}, entry
    for entry in entries:
        _gathered(entry, field.plan)
        if _KEY not in entry:
            raise _missing_half(field.twin, 0)
        if _VALUE not in entry:
            if field.content != _STRUCT:
                raise _missing_half(field.twin, 1)
            entry[_VALUE] = {}
        PyDict_SetDefault(read, entry[_KEY], entry[_VALUE])
    return read


# --- Writing ------------------------------------------------------------------------------------


@cython.final
@cython.auto_pickle(False)
cdef class _Element:
    cdef Py_ssize_t position
    cdef int many
    cdef int content
    cdef bytes opening
    cdef bytes between
    cdef bytes closing
    cdef list elements

    def __cinit__(self, plan):
        self.position, self.many, self.content = plan[:3]
        self.opening, self.between, self.closing, elements = plan[3:]
        self.elements = [_Element(each) for each in elements]


@cython.final
@cython.auto_pickle(False)
cdef class XmlWriter:
    cdef list _elements

    def __cinit__(self, tuple plan not None):
        self._elements = [_Element(each) for each in plan]

    def write(self, struct):
        cdef Buffer buffer = Buffer(NULL, 0, 0)
        try:
            _write_struct(&buffer, struct, self._elements)
            return PyBytes_FromStringAndSize(<char*>buffer.octets, buffer.size)
        finally:
            PyMem_Free(buffer.octets)


cdef int _write_struct(Buffer* buffer, object struct, list elements) except -1:
    cdef _Element element
    cdef object value, key, each
    cdef Py_ssize_t at
    # One call for all members is much cheaper than one for each.
    cdef tuple values = _astuple(struct)
    for at in range(len(elements)):
        element = <_Element>elements[at]
        value = values[element.position]
        if value is None:
            continue
        if element.many == _ONE:
            _write(buffer, element.opening, value, element)
        elif element.many == _LIST:
            for each in <list?>value:
                _write(buffer, element.opening, each, element)
        else:
            for key, each in (<dict?>value).items():
                _append(buffer, element.opening)
                _append_text(buffer, key)
                _write(buffer, element.between, each, element)
    return 0


cdef int _write(Buffer* buffer, bytes opening, object value, _Element element) except -1:
    _append(buffer, opening)
    if element.content == _TEXT:
        _append_text(buffer, value)
    elif element.content == _STRUCT:
        _write_struct(buffer, value, element.elements)
    elif element.content == _OCTETS:
        _append(buffer, _b64encode(value))
    else:
        _append(buffer, str(value).lower().encode())
    return _append(buffer, element.closing)


def escape_xml(str text not None):
    cdef Buffer buffer = Buffer(NULL, 0, 0)
    try:
        _append_text(&buffer, text)
        return PyBytes_FromStringAndSize(<char*>buffer.octets, buffer.size)
    finally:
        PyMem_Free(buffer.octets)


cdef int _append_text(Buffer* buffer, object text) except -1:
    cdef Py_ssize_t size = 0, at
    cdef const uint8_t* octets
    cdef uint8_t care = PLAIN
    try:
        octets = <const uint8_t*>PyUnicode_AsUTF8AndSize(text, &size)
    except UnicodeEncodeError:
        return _append(buffer, _escape_rare(text))
    if not needs_care(octets, size):
        return _append_octets(buffer, octets, size)
    for at in range(size):
        care |= _care[octets[at]]
    if care & RARE:
        return _append(buffer, _escape_rare(text))
    _reserve(buffer, size * NAME_SIZE_MAX)
    for at in range(size):
        memcpy(buffer.octets + buffer.size, &_names[octets[at]][0], _name_sizes[octets[at]])
        buffer.size += _name_sizes[octets[at]]
    return 0


cdef bint needs_care(const uint8_t* octets, Py_ssize_t size) noexcept nogil:
    """Whether anything might. Without a table, so that the C compiler reads many at once."""
    cdef uint8_t found = 0, octet
    cdef Py_ssize_t at
    for at in range(size):
        octet = octets[at]
        found |= (octet < SPACE) | (octet == QUOTE) | (octet == AMPERSAND)
        found |= (octet == LESS) | (octet == GREATER) | (octet == NONCHARACTER)
    return found != 0


cdef inline int _append(Buffer* buffer, bytes octets) except -1:
    return _append_octets(
        buffer, <const uint8_t*>PyBytes_AS_STRING(octets), PyBytes_GET_SIZE(octets)
    )


cdef inline int _append_octets(Buffer* buffer, const uint8_t* octets, Py_ssize_t size) except -1:
    _reserve(buffer, size)
    memcpy(buffer.octets + buffer.size, octets, size)
    buffer.size += size
    return 0


cdef inline int _reserve(Buffer* buffer, Py_ssize_t size) except -1:
    cdef Py_ssize_t capacity
    cdef void* octets
    # Less than, so that even nothing at all has an address to be copied to.
    if buffer.size + size < buffer.capacity:
        return 0
    capacity = max(BUFFER_BYTES, 2 * buffer.capacity, buffer.size + size)
    octets = PyMem_Realloc(buffer.octets, capacity)
    if octets == NULL:
        raise MemoryError
    buffer.octets = <uint8_t*>octets
    buffer.capacity = capacity
    return 0
