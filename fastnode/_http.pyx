# cython: language_level=3
"""Plain requests out of a buffer, in C: one pass over the head, and no copy of a header until
somebody wants it.

Plain is what clients send all day: GET or POST, HTTP/1.1, a path, well-formed headers of different
names, a Content-Length or no body. Everything else, malformed or merely rare, is handed to the twin
`_http_ref.py`, whose word is final; so the rule for this file is to accept nothing that the twin
would not accept with the same result. Tests hold the two equal.
"""

cimport cython
from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_CheckExact,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from cpython.dict cimport PyDict_SetItem
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memchr, memcmp, memset

from fastnode import _http_ref as _ref
from fastnode import config as _config

cdef extern from "Python.h":
    # Cython uses it too, for a dict of which it knows the size.
    dict _PyDict_NewPresized(Py_ssize_t size)

cdef enum:
    # What an SDK sends: a dict that grows to it is allocated three times.
    USUAL_HEADERS = 12
    # More than the common names need, so that a probe rarely meets another name.
    SLOTS = 256
    NO_NAME = 255
    # Enough for any acceptable length, too few to overflow.
    LENGTH_DIGITS_MAX = 15
    TAB = 9
    LINE_FEED = 10
    CARRIAGE_RETURN = 13
    SPACE = 32
    SLASH = 47
    ZERO = 48
    COLON = 58
    LETTER_A = 97
    LETTER_Z = 122
    LAST_PRINTABLE = 126
    DELETE = 127

cdef object _take_rare = _ref.take_request
cdef Py_ssize_t _HEADER_BYTES_MAX = _config.HTTP_HEADER_BYTES_MAX
cdef Py_ssize_t _BODY_BYTES_MAX = _config.HTTP_BODY_BYTES_MAX
cdef Py_ssize_t _HEADERS_MAX = _config.HTTP_HEADERS_MAX
cdef bytes _HEAD_END = b"\r\n\r\n"
cdef bytes _POST = b"POST"
cdef bytes _GET = b"GET"
cdef bytes _ROOT = b"/"
cdef str _VERSION = "1.1"

# Names that need no allocation and whose hash is known. Those that are not ordinary must be here.
cdef dict _KINDS = {
    b"host": HOST,
    b"content-length": CONTENT_LENGTH,
    b"connection": CONNECTION,
    b"transfer-encoding": RARE,
    b"expect": RARE,
    b"accept": ORDINARY,
    b"accept-encoding": ORDINARY,
    b"amz-sdk-invocation-id": ORDINARY,
    b"amz-sdk-request": ORDINARY,
    b"authorization": ORDINARY,
    b"cache-control": ORDINARY,
    b"content-encoding": ORDINARY,
    b"content-type": ORDINARY,
    b"origin": ORDINARY,
    b"user-agent": ORDINARY,
    b"x-amz-content-sha256": ORDINARY,
    b"x-amz-date": ORDINARY,
    b"x-amz-security-token": ORDINARY,
    b"x-amz-target": ORDINARY,
    b"x-amz-user-agent": ORDINARY,
    b"x-amzn-query-mode": ORDINARY,
    b"x-amzn-trace-id": ORDINARY,
    b"x-forwarded-for": ORDINARY,
    b"x-forwarded-host": ORDINARY,
    b"x-forwarded-proto": ORDINARY,
    b"x-fastnode-explain": ORDINARY,
}
cdef tuple _NAMES = tuple(_KINDS)
assert len(_NAMES) <= KNOWN_MAX
cdef uint8_t[SLOTS] _slots
cdef uint8_t[NO_NAME] _kinds
# Into the objects of `_NAMES`, which lives as long as the module.
cdef const char* _name_starts[NO_NAME]
cdef Py_ssize_t[NO_NAME] _name_sizes
# The lower case of every byte that a name may hold (RFC 9110 §5.6.2), 0 for the others.
cdef uint8_t[256] _letters


@cython.final
@cython.auto_pickle(False)
@cython.freelist(64)
cdef class Request:
    def __init__(
        self,
        bytes method not None,
        bytes target not None,
        str http_version not None,
        dict headers not None,
        bint keep_alive,
        bytes body not None=b"",
    ):
        self.method = method
        self.target = target
        self.http_version = http_version
        self._headers = headers
        self.keep_alive = keep_alive
        self.body = body

    @property
    def headers(self):
        return self.gathered()

    @property
    def path(self):
        return _path_of(self)

    @property
    def query(self):
        return _query_of(self)

    def __eq__(self, other):
        if type(other) is not Request:
            return NotImplemented
        return parts_of(self) == parts_of(<Request>other)

    def __repr__(self):
        return f"Request{parts_of(self)!r}"

    cpdef bytes get(self, bytes name):
        cdef Py_ssize_t size = 0
        cdef const uint8_t* value = self.find(name, &size)
        return None if value == NULL else PyBytes_FromStringAndSize(<const char*>value, size)

    cpdef bint has(self, bytes name) except -1:
        cdef Py_ssize_t size = 0
        return self.find(name, &size) != NULL

    cpdef bint says(self, bytes name, bytes value) except -1:
        cdef Py_ssize_t size = 0
        cdef const uint8_t* found = self.find(name, &size)
        return (
            found != NULL and size == PyBytes_GET_SIZE(value)
            and memcmp(found, PyBytes_AS_STRING(value), size) == 0
        )

    cdef const uint8_t* find(self, bytes name, Py_ssize_t* size) except? NULL:
        """Where the value of a header is, NULL if there is none."""
        cdef const uint8_t* wanted = <const uint8_t*>PyBytes_AS_STRING(name)
        cdef const uint8_t* source
        cdef Py_ssize_t name_size = PyBytes_GET_SIZE(name)
        cdef uint8_t index
        cdef int line
        if self._headers is not None:
            found = self._headers.get(name)
            if not PyBytes_CheckExact(found):
                return NULL
            size[0] = PyBytes_GET_SIZE(<bytes>found)
            return <const uint8_t*>PyBytes_AS_STRING(<bytes>found)
        if self._source is None:
            return NULL
        source = <const uint8_t*>PyBytes_AS_STRING(self._source)
        index = name_index(wanted, name_size)
        if index != NO_NAME:
            line = self._lines_of[index] - 1
            if line < 0:
                return NULL
        else:
            line = self._count - 1
            while line >= 0 and not (
                self._names[line] == NO_NAME and is_same(self, line, wanted, name_size)
            ):
                line -= 1
            if line < 0:
                return NULL
        size[0] = self._places[line].value_size
        return source + self._places[line].value

    cdef dict gathered(self):
        cdef dict headers
        cdef const uint8_t* source = NULL
        cdef int line
        if self._headers is None:
            headers = _PyDict_NewPresized(USUAL_HEADERS)
            if self._source is not None:
                source = <const uint8_t*>PyBytes_AS_STRING(self._source)
            for line in range(self._count):
                PyDict_SetItem(headers, name_of(self, line), PyBytes_FromStringAndSize(
                    <const char*>source + self._places[line].value, self._places[line].value_size
                ))
            self._headers = headers
            self._source = None
        return self._headers


cdef object _path_of = _ref.Request.path.fget
cdef object _query_of = _ref.Request.query.fget


cdef tuple parts_of(Request one):
    return one.method, one.target, one.http_version, one.gathered(), one.keep_alive, one.body


cdef bytes name_of(Request request, int line):
    """In lower case."""
    cdef Place* place = &request._places[line]
    if request._names[line] != NO_NAME:
        return <bytes>_NAMES[request._names[line]]
    return request._source[place.name:place.name + place.name_size].lower()


cdef bint is_same(Request request, int line, const uint8_t* name, Py_ssize_t size) noexcept:
    """Whether a line has that name, which is in lower case."""
    cdef Place* place = &request._places[line]
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(request._source) + place.name
    cdef Py_ssize_t index
    if place.name_size != size:
        return False
    for index in range(size):
        if _letters[at[index]] != name[index]:
            return False
    return True


def take_request(bytes buffer not None, Py_ssize_t start, Py_ssize_t searched):
    cdef Py_ssize_t end = 0, missing = 0
    cdef Request taken
    if start < 0 or start > PyBytes_GET_SIZE(buffer):
        return taken_rarely(buffer, start, searched)
    # A head that arrives in many packets is scanned when it is whole, not once for each of them.
    if searched > start and buffer.find(_HEAD_END, searched, start + _HEADER_BYTES_MAX) < 0:
        return None
    taken = plain_request(buffer, start, &end, &missing)
    if taken is None:
        return taken_rarely(buffer, start, searched)
    # The buffer may hold more than this request, and must not be kept for it.
    taken.gathered()
    return taken, end, missing


cdef object taken_rarely(bytes buffer, Py_ssize_t start, Py_ssize_t searched):
    taken = _take_rare(buffer, start, searched)
    if taken is None:
        return None
    one, end, missing = taken
    parts = one.method, one.target, one.http_version, one.headers, one.keep_alive, one.body
    return Request(*parts), end, missing


def take_whole(bytes data not None):
    cdef Py_ssize_t end = 0, missing = 0
    cdef Request taken = plain_request(data, 0, &end, &missing)
    if taken is None or missing or end != PyBytes_GET_SIZE(data) or taken.method is not _POST:
        return None
    return taken


cdef Request plain_request(
    bytes buffer, Py_ssize_t start, Py_ssize_t* end, Py_ssize_t* missing
):
    """None if it is not plain. A body that is not whole is not taken at all."""
    cdef const uint8_t* base = <const uint8_t*>PyBytes_AS_STRING(buffer)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(buffer)
    cdef const uint8_t* at = base + start
    cdef const uint8_t* stop = at + min(size - start, _HEADER_BYTES_MAX)
    cdef Py_ssize_t length = 0
    cdef bytes method = take_method(&at, stop)
    cdef const uint8_t* target = at
    if method is None or not skip_target(&at, stop):
        return None
    cdef Request request = Request.__new__(Request)
    request.method = method
    request.http_version = _VERSION
    request.keep_alive = True
    request.body = b""
    request.target = target_of(target, at - target)
    at += sizeof(VERSION_LINE) - 1
    request._source = buffer
    if not take_headers(request, &at, stop, &length):
        return None
    end[0] = at - base
    if length > size - end[0]:
        missing[0] = length
    else:
        missing[0] = 0
        request.body = PyBytes_FromStringAndSize(<const char*>at, length)
        end[0] += length
    return request


cdef inline bytes target_of(const uint8_t* at, Py_ssize_t size):
    """SDKs post everything to the root."""
    return _ROOT if size == 1 else PyBytes_FromStringAndSize(<const char*>at, size)


cdef extern from *:
    """
    static const char VERSION_LINE[] = " HTTP/1.1\\r\\n";
    """
    const char[12] VERSION_LINE


cdef inline bytes take_method(const uint8_t** at, const uint8_t* stop):
    """None, and nothing is taken, if it is another one."""
    cdef Py_ssize_t room = stop - at[0]
    if room > 5 and memcmp(at[0], b"POST ", 5) == 0:
        at[0] += 5
        return _POST
    if room > 4 and memcmp(at[0], b"GET ", 4) == 0:
        at[0] += 4
        return _GET
    return None


cdef inline bint skip_target(const uint8_t** at, const uint8_t* stop) noexcept nogil:
    """Whether there is a path, and the version and the line end behind it."""
    cdef const uint8_t* end = at[0]
    if end == stop or end[0] != SLASH:
        return False
    while end < stop and SPACE < end[0] <= LAST_PRINTABLE:
        end += 1
    at[0] = end
    cdef Py_ssize_t size = sizeof(VERSION_LINE) - 1
    return stop - end >= size and memcmp(end, VERSION_LINE, size) == 0


cdef bint take_headers(
    Request request, const uint8_t** at, const uint8_t* stop, Py_ssize_t* length
) except -1:
    """The headers up to the empty line, which is taken too; False if they are not plain."""
    cdef Line line
    cdef Outcome outcome
    cdef Place* place
    cdef uint8_t index
    cdef int count = 0, other
    cdef bint has_host = False
    cdef const uint8_t* base = <const uint8_t*>PyBytes_AS_STRING(request._source)
    memset(request._lines_of, 0, KNOWN_MAX)
    while True:
        outcome = take_line(&line, at, stop)
        if outcome != LINE:
            break
        if count == LINES_MAX:
            return False
        index = name_index(line.name, line.name_size)
        if index == NO_NAME:
            for other in range(count):
                if request._names[other] == NO_NAME and is_same(
                    request, other, line.name, line.name_size
                ):
                    return False
        elif request._lines_of[index] or not understand(_kinds[index], &line, &has_host, length):
            return False
        else:
            request._lines_of[index] = count + 1
        request._names[count] = index
        place = &request._places[count]
        place.name = line.begin - base
        place.name_size = line.name_size
        place.value = line.value - base
        place.value_size = line.value_size
        count += 1
        request._count = count
    return outcome == HEAD_END and has_host and count <= _HEADERS_MAX


cdef inline bint understand(
    uint8_t kind, Line* line, bint* has_host, Py_ssize_t* length
) noexcept nogil:
    """Whether the header means nothing, or something that is provided for here."""
    if kind == ORDINARY:
        return True
    if kind == HOST:
        has_host[0] = line.value_size > 0
        return True
    if kind == CONTENT_LENGTH:
        length[0] = number(line.value, line.value_size)
        return 0 <= length[0] <= _BODY_BYTES_MAX
    return kind == CONNECTION and is_keep_alive(line.value, line.value_size)


cdef Outcome take_line(Line* line, const uint8_t** at, const uint8_t* stop) noexcept nogil:
    cdef const uint8_t* here = at[0]
    if stop - here < 2:
        return NOT_PLAIN
    if here[0] == CARRIAGE_RETURN and here[1] == LINE_FEED:
        at[0] = here + 2
        return HEAD_END
    here = take_name(line, here, stop)
    if here == NULL:
        return NOT_PLAIN
    while here < stop and is_blank(here[0]):
        here += 1
    cdef const uint8_t* end = <const uint8_t*>memchr(here, CARRIAGE_RETURN, stop - here)
    if end == NULL or stop - end < 2 or end[1] != LINE_FEED:
        return NOT_PLAIN
    at[0] = end + 2
    while end > here and is_blank((end - 1)[0]):
        end -= 1
    line.value = here
    line.value_size = end - here
    return LINE if is_text(here, end - here) else NOT_PLAIN


cdef inline const uint8_t* take_name(
    Line* line, const uint8_t* at, const uint8_t* stop
) noexcept nogil:
    """Where the value begins, NULL if this is no name with a colon right behind it."""
    cdef Py_ssize_t room = min(stop - at, <Py_ssize_t>NAME_BYTES_MAX)
    cdef Py_ssize_t size = 0
    while size < room and _letters[at[size]]:
        line.name[size] = _letters[at[size]]
        size += 1
    line.begin = at
    line.name_size = size
    if size == 0 or size == room or at[size] != COLON:
        return NULL
    return at + size + 1


cdef inline bint is_blank(uint8_t byte) noexcept nogil:
    return byte == SPACE or byte == TAB


cdef inline bint is_text(const uint8_t* at, Py_ssize_t size) noexcept nogil:
    """No control character but the tab. Without an early exit the compiler takes many bytes in one
    step.
    """
    cdef Py_ssize_t index
    cdef uint8_t wrong = 0
    for index in range(size):
        wrong |= ((at[index] < SPACE) & (at[index] != TAB)) | (at[index] == DELETE)
    return wrong == 0


cdef inline Py_ssize_t number(const uint8_t* at, Py_ssize_t size) noexcept nogil:
    """-1 unless all are digits, at least one and not too many."""
    cdef Py_ssize_t index, value = 0
    if size == 0 or size > LENGTH_DIGITS_MAX:
        return -1
    for index in range(size):
        if not ZERO <= at[index] < ZERO + 10:
            return -1
        value = value * 10 + (at[index] - ZERO)
    return value


cdef inline bint is_keep_alive(const uint8_t* at, Py_ssize_t size) noexcept nogil:
    cdef uint8_t[10] lower
    cdef Py_ssize_t index
    if size != 10:
        return False
    for index in range(10):
        lower[index] = _letters[at[index]]
    return memcmp(lower, b"keep-alive", 10) == 0


cdef inline uint8_t name_index(const uint8_t* name, Py_ssize_t size) noexcept nogil:
    """The place of the name among the common ones, or NO_NAME."""
    if size == 0:
        return NO_NAME
    cdef uint32_t slot = slot_of(name, size)
    cdef uint8_t index = _slots[slot]
    while index != NO_NAME and not is_named(name, size, index):
        slot = (slot + 1) % SLOTS
        index = _slots[slot]
    return index


cdef inline bint is_named(const uint8_t* name, Py_ssize_t size, uint8_t index) noexcept nogil:
    return _name_sizes[index] == size and memcmp(_name_starts[index], name, size) == 0


cdef inline uint32_t slot_of(const uint8_t* name, Py_ssize_t size) noexcept nogil:
    return (<uint32_t>size * 7 + name[0] * 3 + name[size // 2] * 5 + name[size - 1]) % SLOTS


cdef int fill_tables() except -1:
    cdef int index
    cdef uint8_t letter
    cdef uint32_t slot
    cdef bytes name
    for index in range(SLOTS):
        _slots[index] = NO_NAME
        _letters[index] = 0
    for letter in b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz":
        _letters[letter] = letter
        if letter >= LETTER_A and letter <= LETTER_Z:
            _letters[letter - SPACE] = letter
    for index, name in enumerate(_NAMES):
        _name_starts[index] = PyBytes_AS_STRING(name)
        _name_sizes[index] = PyBytes_GET_SIZE(name)
        slot = slot_of(<const uint8_t*>_name_starts[index], _name_sizes[index])
        while _slots[slot] != NO_NAME:
            slot = (slot + 1) % SLOTS
        _slots[slot] = index
        _kinds[index] = _KINDS[name]
    return 0


fill_tables()
