"""The edge of the node: sockets, HTTP/1.1 and the wire formats around the operations of
`fastnode.queue`.

Bytes become requests in `http1.py` (without I/O), `server.py` and `connection.py` own the sockets,
a codec turns a request into a Struct and a result into bytes, and `router.py` joins them with the
table of operations. No queue rule lives here, and nothing below this package knows that HTTP
exists.

Invariants: answers leave a connection in the order of its requests; every request is answered at
most once; every buffer, wait and backlog has a bound from `fastnode.config`; no task and no future
exists per request.
"""
