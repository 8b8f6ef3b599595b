"""The handshake: both sides agree only when both know the secret and want each other; whatever a
stranger, a mirror or an eavesdropper sends ends in a refusal.
"""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.peers.frames import HELLO, PROOF, REFUSAL, WELCOME, ProtocolError, plain_frame
from fastnode.peers.handshake import (
    ADVICE,
    MAGIC,
    NONCE_BYTES,
    Handshake,
    Identity,
    Reason,
    Refused,
    encode_hello,
    parse_refusal,
)

SECRET = b"a secret of the cluster"
ONE = Identity(node_id=1, incarnation=b"1" * 16, cluster_id="c", sqs_url="http://one:9324")
TWO = Identity(node_id=2, incarnation=b"2" * 16, cluster_id="c", capabilities=("htfifo",))


def welcome(_: Identity) -> Refused | None:
    return None


def side(
    identity: Identity,
    *,
    is_dialer: bool,
    secret: bytes = SECRET,
    nonce: bytes = b"",
    admit: Callable[[Identity], Refused | None] = welcome,
    expected: int | None = None,
) -> Handshake:
    nonce = nonce or (b"D" if is_dialer else b"A") * NONCE_BYTES
    return Handshake(identity, secret, nonce, admit, is_dialer=is_dialer, expected_node=expected)


def body(frame: bytes) -> bytes:
    """Without the length, as a splitter hands it out."""
    return frame[4:]


def talk(dialer: Handshake, acceptor: Handshake) -> list[bytes]:
    """Until nobody has anything to say; the frames in order."""
    said: list[bytes] = []
    sending, receiver, other = dialer.begin(), acceptor, dialer
    while sending:
        said += sending
        answers = [answer for frame in sending for answer in receiver.receive(body(frame))]
        sending, receiver, other = answers, other, receiver
    return said


def test_two_nodes_that_share_a_secret_know_each_other() -> None:
    dialer, acceptor = side(TWO, is_dialer=True), side(ONE, is_dialer=False)
    said = talk(dialer, acceptor)
    assert dialer.is_done and acceptor.is_done
    assert (dialer.peer, acceptor.peer) == (ONE, TWO)
    assert [body(frame)[0] for frame in said] == [HELLO, HELLO, PROOF, PROOF, WELCOME]
    assert not any(SECRET in frame for frame in said)


def test_nobody_is_proven_before_the_proof() -> None:
    dialer, acceptor = side(TWO, is_dialer=True), side(ONE, is_dialer=False)
    [hello] = dialer.begin()
    acceptor.receive(body(hello))
    assert not acceptor.is_authenticated
    with pytest.raises(AssertionError):
        _ = acceptor.peer


@pytest.mark.parametrize("secret", [b"", b"another", SECRET + b"\0x"])
def test_acceptor_refuses_another_secret_and_tells_nothing_more(secret: bytes) -> None:
    asked: list[Identity] = []
    acceptor = side(ONE, is_dialer=False, admit=lambda peer: asked.append(peer))
    with pytest.raises(Refused) as refused:
        talk(side(TWO, is_dialer=True, secret=secret), acceptor)
    assert refused.value.reason is Reason.SECRET
    assert not acceptor.is_authenticated and not asked


def test_dialer_refuses_an_acceptor_without_the_secret() -> None:
    dialer, impostor = side(TWO, is_dialer=True), side(ONE, is_dialer=False, secret=b"guess")
    [hello] = dialer.begin()
    [answer] = impostor.receive(body(hello))
    dialer.receive(body(answer))
    with pytest.raises(Refused) as refused:
        dialer.receive(body(plain_frame(PROOF, impostor._proof(2))))
    assert refused.value.reason is Reason.SECRET


def test_recorded_exchange_does_not_fit_a_new_nonce() -> None:
    said = talk(side(TWO, is_dialer=True), side(ONE, is_dialer=False))
    acceptor = side(ONE, is_dialer=False, nonce=b"B" * NONCE_BYTES)
    acceptor.receive(body(said[0]))
    with pytest.raises(Refused) as refused:
        acceptor.receive(body(said[2]))
    assert refused.value.reason is Reason.SECRET


def test_mirror_that_sends_everything_back_is_no_peer() -> None:
    dialer = side(TWO, is_dialer=True)
    [hello] = dialer.begin()
    with pytest.raises(ProtocolError):
        dialer.receive(body(hello))


def test_own_nonce_under_another_name_is_refused() -> None:
    dialer = side(TWO, is_dialer=True)
    mirrored = encode_hello(ONE, b"D" * NONCE_BYTES, is_dialer=False)
    with pytest.raises(ProtocolError):
        dialer.receive(body(plain_frame(HELLO, mirrored)))


def test_proof_of_one_side_is_none_of_the_other() -> None:
    """The dialer's own proof, sent back to it as if it were the acceptor's."""
    dialer, acceptor = side(TWO, is_dialer=True), side(ONE, is_dialer=False)
    [hello] = dialer.begin()
    [answer] = acceptor.receive(body(hello))
    [proof] = dialer.receive(body(answer))
    with pytest.raises(Refused) as refused:
        dialer.receive(body(proof))
    assert refused.value.reason is Reason.SECRET


@pytest.mark.parametrize("are_dialers", [True, False])
def test_two_of_the_same_side_do_not_talk(are_dialers: bool) -> None:
    first, second = (
        side(TWO, is_dialer=are_dialers),
        side(ONE, is_dialer=are_dialers, nonce=b"x" * NONCE_BYTES),
    )
    hello = encode_hello(TWO, b"y" * NONCE_BYTES, is_dialer=are_dialers)
    for each in (first, second):
        with pytest.raises(ProtocolError):
            each.receive(body(plain_frame(HELLO, hello)))


def test_hello_changed_on_the_way_fits_no_proof() -> None:
    """A range of versions that an attacker narrows, or any other byte of either hello."""
    dialer, acceptor = side(TWO, is_dialer=True), side(ONE, is_dialer=False)
    narrowed = encode_hello(TWO, b"D" * NONCE_BYTES, is_dialer=True, versions=(0, 1))
    [answer] = acceptor.receive(body(plain_frame(HELLO, narrowed)))
    [proof] = dialer.receive(body(answer))
    with pytest.raises(Refused) as refused:
        acceptor.receive(body(proof))
    assert refused.value.reason is Reason.SECRET


@pytest.mark.parametrize("versions", [(2, 9), (0, 0)])
def test_versions_without_overlap_are_refused(versions: tuple[int, int]) -> None:
    hello = encode_hello(TWO, b"D" * NONCE_BYTES, is_dialer=True, versions=versions)
    with pytest.raises(Refused) as refused:
        side(ONE, is_dialer=False).receive(body(plain_frame(HELLO, hello)))
    assert refused.value.reason is Reason.VERSION
    assert f"{versions[0]} to {versions[1]}" in str(refused.value)


def test_wider_range_of_versions_is_welcome() -> None:
    hello = encode_hello(TWO, b"D" * NONCE_BYTES, is_dialer=True, versions=(1, 9))
    assert side(ONE, is_dialer=False).receive(body(plain_frame(HELLO, hello)))


def test_newer_hello_may_say_more() -> None:
    more = msgspec.msgpack.encode(msgspec.to_builtins(TWO, builtin_types=(bytes,)) | {"new": [1]})
    fixed = encode_hello(TWO, b"D" * NONCE_BYTES, is_dialer=True)[: 13 + NONCE_BYTES]
    acceptor = side(ONE, is_dialer=False)
    assert acceptor.receive(body(plain_frame(HELLO, fixed + more)))
    assert acceptor.claimed == TWO


def refusal_between(dialer: Handshake, acceptor: Handshake) -> Refused:
    with pytest.raises(Refused) as refused:
        talk(dialer, acceptor)
    return refused.value


def test_another_cluster_is_refused_before_any_proof() -> None:
    stranger = msgspec.structs.replace(TWO, cluster_id="other")
    refused = refusal_between(side(stranger, is_dialer=True), side(ONE, is_dialer=False))
    assert refused.reason is Reason.WRONG_CLUSTER
    assert refused.detail == "other against c"


def test_node_without_a_cluster_may_link_to_any() -> None:
    joining = msgspec.structs.replace(TWO, cluster_id="")
    dialer, acceptor = side(joining, is_dialer=True), side(ONE, is_dialer=False)
    talk(dialer, acceptor)
    assert dialer.is_done and acceptor.is_done


@pytest.mark.parametrize(
    ("incarnation", "reason"), [(b"1" * 16, Reason.ITSELF), (b"z" * 16, Reason.ID_IN_USE)]
)
def test_own_id_is_refused(incarnation: bytes, reason: Reason) -> None:
    twin = msgspec.structs.replace(TWO, node_id=1, incarnation=incarnation)
    assert refusal_between(side(twin, is_dialer=True), side(ONE, is_dialer=False)).reason is reason


def test_another_node_than_the_dialled_one_is_refused() -> None:
    dialer = side(TWO, is_dialer=True, expected=7)
    refused = refusal_between(dialer, side(ONE, is_dialer=False))
    assert refused.reason is Reason.NOT_EXPECTED
    assert refused.detail == "node 1 in place of node 7"


@pytest.mark.parametrize("is_dialer", [True, False])
def test_either_side_may_not_want_a_proven_peer(is_dialer: bool) -> None:
    unwanted = Refused(Reason.REMOVED, "node")
    dialer = side(TWO, is_dialer=True, admit=lambda _: unwanted if is_dialer else None)
    acceptor = side(ONE, is_dialer=False, admit=lambda _: None if is_dialer else unwanted)
    assert refusal_between(dialer, acceptor) is unwanted
    assert not dialer.is_done and not acceptor.is_done


@pytest.mark.parametrize("reason", Reason)
def test_refusal_travels(reason: Reason) -> None:
    frame = Refused(reason, "why, in ü few words " * 30).frame()
    assert len(frame) < 256
    for each in (side(TWO, is_dialer=True), side(ONE, is_dialer=False)):
        with pytest.raises(Refused) as refused:
            each.receive(body(frame))
        assert refused.value.by_peer and refused.value.reason is reason
        assert ADVICE[reason] in str(refused.value)


@pytest.mark.parametrize("frame", [bytes((REFUSAL,)), bytes((REFUSAL, 0)), bytes((REFUSAL, 200))])
def test_unknown_refusal_is_garbage(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_refusal(frame)


DEEP = MAGIC + bytes((0, 1, 0, 1, 1)) + b"n" * NONCE_BYTES + b"\x81\xa1x" + b"\x91" * 4_000


@given(frame=st.binary(min_size=1, max_size=400))
def test_garbage_is_refused_and_does_nothing_else(frame: bytes) -> None:
    for is_dialer in (True, False):
        with pytest.raises((ProtocolError, Refused)):
            side(ONE, is_dialer=is_dialer).receive(frame)


@given(rest=st.one_of(st.binary(max_size=300), st.just(DEEP[45:])))
def test_garbage_behind_a_good_begin_is_refused(rest: bytes) -> None:
    with pytest.raises(ProtocolError):
        side(ONE, is_dialer=False).receive(bytes((HELLO,)) + DEEP[:45] + rest)


@given(st.data())
def test_hello_with_any_byte_changed_leads_to_no_link(data: st.DataObject) -> None:
    dialer, acceptor = side(TWO, is_dialer=True), side(ONE, is_dialer=False)
    changed = bytearray(body(dialer.begin()[0]))
    at = data.draw(st.integers(min_value=1, max_value=len(changed) - 1))
    changed[at] ^= data.draw(st.integers(min_value=1, max_value=255))
    with pytest.raises((ProtocolError, Refused)):
        [answer] = acceptor.receive(bytes(changed))
        [proof] = dialer.receive(body(answer))
        acceptor.receive(body(proof))


@pytest.mark.parametrize("kind", [PROOF, WELCOME, 16, 17, 20, 255])
def test_nothing_comes_before_the_hello(kind: int) -> None:
    with pytest.raises(ProtocolError):
        side(ONE, is_dialer=False).receive(bytes((kind,)) + b"x" * 32)


def test_acceptor_is_not_up_before_the_welcome() -> None:
    dialer, acceptor = side(TWO, is_dialer=True), side(ONE, is_dialer=False)
    [hello] = dialer.begin()
    [answer] = acceptor.receive(body(hello))
    [proof] = dialer.receive(body(answer))
    acceptor.receive(body(proof))
    assert acceptor.is_authenticated and not acceptor.is_done
    with pytest.raises(ProtocolError):
        acceptor.receive(bytes((WELCOME,)) + b"more")
