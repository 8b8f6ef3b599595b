"""Tokens of the control plane: only who knows the secret calls, this method, here, now, once."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.clock import SystemIdSource
from fastnode.cluster import cluster_auth
from fastnode.cluster.cluster_auth import (
    WINDOW_MS,
    Judge,
    Realm,
    Signer,
    Unauthenticated,
)

CLUSTER = b"c" * 16
METHOD = "/service/Status"
IDS = SystemIdSource()


class Time:
    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.ms


def signer(now: Callable[[], int], **other: object) -> Signer:
    realm = Realm(b"secret", CLUSTER, 1)._replace(**other)  # type: ignore[arg-type]  # by field
    return Signer(realm, now, IDS)


def judge(now: Callable[[], int]) -> Judge:
    return Judge(Realm(b"secret", CLUSTER, 2), now)


def test_a_call_tells_who_calls() -> None:
    now = Time()
    assert judge(now).caller(METHOD, signer(now).token(2, METHOD)) == 1


@pytest.mark.parametrize(
    "other", [{"secret": b"guess"}, {"secret": b""}, {"cluster_id": b"d" * 16}]
)
def test_another_secret_or_cluster_proves_nothing(other: dict[str, object]) -> None:
    now = Time()
    with pytest.raises(Unauthenticated, match="proof"):
        judge(now).caller(METHOD, signer(now, **other).token(2, METHOD))


def test_a_token_is_for_one_callee_and_one_method() -> None:
    now = Time()
    for token in (signer(now).token(3, METHOD), signer(now).token(2, "/service/Join")):
        with pytest.raises(Unauthenticated, match="proof"):
            judge(now).caller(METHOD, token)


def test_a_token_sent_back_to_its_maker_proves_nothing() -> None:
    now = Time()
    own = Judge(Realm(b"secret", CLUSTER, 1), now)
    with pytest.raises(Unauthenticated):
        own.caller(METHOD, signer(now).token(2, METHOD))


@pytest.mark.parametrize("off_ms", [WINDOW_MS + 1, -WINDOW_MS - 1, 3_600_000])
def test_a_token_of_another_time_is_refused(off_ms: int) -> None:
    now = Time()
    token = signer(lambda: now.ms + off_ms).token(2, METHOD)
    with pytest.raises(Unauthenticated, match=re.escape(f"{off_ms:+} ms")):
        judge(now).caller(METHOD, token)


@pytest.mark.parametrize("off_ms", [WINDOW_MS, -WINDOW_MS])
def test_clocks_may_differ_within_the_window(off_ms: int) -> None:
    now = Time()
    token = signer(lambda: now.ms + off_ms).token(2, METHOD)
    assert judge(now).caller(METHOD, token) == 1


def test_a_token_is_good_once() -> None:
    now = Time()
    judging, token = judge(now), signer(now).token(2, METHOD)
    judging.caller(METHOD, token)
    with pytest.raises(Unauthenticated, match="second time"):
        judging.caller(METHOD, token)


def test_a_clock_that_steps_back_makes_no_old_token_good_again() -> None:
    now = Time()
    judging, token = judge(now), signer(now).token(2, METHOD)
    judging.caller(METHOD, token)
    now.ms += 10 * WINDOW_MS
    judging.caller(METHOD, signer(now).token(2, METHOD))
    now.ms -= 10 * WINDOW_MS
    with pytest.raises(Unauthenticated, match="second time"):
        judging.caller(METHOD, token)


def test_remembered_nonces_are_bounded_and_make_room_when_they_expire(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_auth, "NONCES_MAX", 10)
    now = Time()
    judging, making = judge(now), signer(now)
    for _ in range(10):
        judging.caller(METHOD, making.token(2, METHOD))
    with pytest.raises(Unauthenticated, match="remembered"):
        judging.caller(METHOD, making.token(2, METHOD))
    now.ms += WINDOW_MS + 1
    assert judging.caller(METHOD, making.token(2, METHOD)) == 1


@given(st.binary(max_size=100))
def test_garbage_is_no_token(garbage: bytes) -> None:
    with pytest.raises(Unauthenticated):
        judge(Time()).caller(METHOD, garbage)


@given(st.integers(0, 64), st.integers(1, 255))
def test_no_byte_of_a_token_can_be_changed(at: int, change: int) -> None:
    now = Time()
    token = bytearray(signer(now).token(2, METHOD))
    token[at] ^= change
    with pytest.raises(Unauthenticated):
        judge(now).caller(METHOD, bytes(token))


def test_the_secret_does_not_travel() -> None:
    now = Time()
    assert b"secret" not in signer(now).token(2, METHOD)
