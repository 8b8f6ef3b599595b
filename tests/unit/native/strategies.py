"""Random keys, records and transactions for the tests of the native modules."""

from hypothesis import strategies as st

from fastnode import native

u8 = st.integers(0, 2**8 - 1)
u16 = st.integers(0, 2**16 - 1)
u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
id16 = st.binary(min_size=16, max_size=16)
blobs = st.binary(max_size=24)

# Few letters, among them the escaped one and its neighbours: random texts then share prefixes.
tricky_texts = st.text(st.sampled_from("\x00\x01\x02ab|\x7f\xff\u20ac\U0001f600"), max_size=6)
texts = st.one_of(tricky_texts, st.text(max_size=20))
# Made so, not sieved: most random text holds something that does not print.
printables = st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), max_size=20)
accounts = st.integers(0, 10**12 - 1).map(lambda number: f"{number:012}")
queues = st.tuples(accounts, texts, texts)
partitions = st.one_of(st.just(native.UNPARTITIONED), u32)


def fitting(kind: int, key: bytes, value: bytes) -> tuple[int, bytes, bytes]:
    """A write that apply would accept: the same parts, made to fit the kind."""
    if kind in (native.DELETE, native.FRESH_DELETE, native.TOUCH):
        return kind, key, b""
    if kind == native.DROP:
        return kind, min(key, value), max(key, value)
    if kind == native.ADD:
        return kind, key, value[:8].ljust(8, b"\x00")
    return kind, key, value


writes = st.builds(fitting, st.integers(native.PUT, native.TOUCH), blobs, blobs)
transactions = st.builds(
    native.Transaction,
    request=id16,
    start_ts=u64,
    commit_ts=u64,
    retention=u8,
    mask=u16,
    reads=st.lists(blobs, max_size=4),
    writes=st.lists(writes, max_size=4),
)
messages = st.builds(
    native.MessageRecord,
    flags=u8,
    message_id=id16,
    sent_ms=u64,
    body_md5=id16,
    sender=texts,
    extras=blobs,
    body=blobs,
)
states = st.builds(
    native.MessageState, nonce=u64, receive_count=u32, visible_at=u64, first_receive_ms=u64
)
receipts = st.tuples(id16, u64, id16, u64, partitions)
