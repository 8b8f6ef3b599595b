"""What is kept of group indexes: positions in order, compiled as in the twin, within a bound."""

from bisect import insort
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode import _filed_ref, native

IMPLEMENTATIONS: list[Any] = [_filed_ref.Filed, *([native.Filed] if native.COMPILED else [])]
GROUPS = st.sampled_from([b"a", b"b"])
POSITIONS = st.integers(0, 30).map(lambda number: number.to_bytes(10, "big"))
CHANGES = st.dictionaries(GROUPS, st.dictionaries(POSITIONS, st.booleans(), max_size=6))
LOADED = st.lists(POSITIONS, unique=True, max_size=12).map(sorted)
STEPS = st.one_of(
    st.tuples(st.just("begin"), GROUPS),
    st.tuples(st.just("load"), GROUPS, LOADED, st.booleans()),
    *[st.tuples(st.just("change"), CHANGES)] * 3,
    st.tuples(st.just("forget")),
)


def run(filed: Any, kind: str, *rest: Any) -> None:
    if kind == "load":
        group, positions, is_whole = rest
        filed.load(group, [b"key" + one for one in positions], is_whole=is_whole)
    else:
        getattr(filed, kind)(*rest)


def seen(filed: Any, changed: dict[bytes, bool]) -> list[object]:
    known = [filed.known(group, limit) for group in (b"a", b"b") for limit in (1, 4, 40)]
    return [filed.places, *known, *(filed.successor(group, changed) for group in (b"a", b"b"))]


@pytest.mark.skipif(not native.COMPILED, reason="pure mode has nothing to compare")
@given(
    st.lists(STEPS, max_size=12),
    st.dictionaries(POSITIONS, st.booleans(), max_size=20),
    st.sampled_from([30, 60, 1_000]),
)
def test_compiled_and_plain_keep_the_same(
    steps: list[tuple[Any, ...]], changed: dict[bytes, bool], places_max: int
) -> None:
    both = [implementation(places_max) for implementation in IMPLEMENTATIONS]
    for step in steps:
        for filed in both:
            run(filed, *step)
        assert seen(both[0], changed) == seen(both[1], changed)
        assert both[0].places <= places_max + _filed_ref.GROUP_PLACES * 2


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@given(st.lists(st.dictionaries(POSITIONS, st.booleans(), max_size=6), max_size=12), LOADED)
def test_a_group_that_is_known_whole_is_its_index(
    implementation: Any, changes: list[dict[bytes, bool]], before: list[bytes]
) -> None:
    filed, index = implementation(1_000), list(before)
    filed.load(b"a", before, is_whole=True)
    for changed in changes:
        if not index:
            filed.begin(b"a")
        filed.change({b"a": changed})
        for one, exists in changed.items():
            if one in index:
                index.remove(one)
            if exists:
                insort(index, one)
        if index:
            assert filed.known(b"a", 99) == [int.from_bytes(one, "big") for one in index]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_group_that_is_cut_is_known_up_to_where_it_was_read(implementation: Any) -> None:
    filed = implementation(1_000)
    first, second, third = (number.to_bytes(10, "big") for number in (1, 2, 3))
    filed.load(b"a", [first, second], is_whole=False)
    assert filed.known(b"a", 2) == [1, 2] and filed.known(b"a", 3) is None
    filed.change({b"a": {third: True}})
    assert filed.known(b"a", 3) is None
    assert filed.successor(b"a", {first: False}) == second
    assert filed.successor(b"a", {first: False, second: False}) is None
    filed.change({b"a": {first: False, second: False}})
    assert filed.known(b"a", 1) is None and filed.places == 0


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_too_many_groups_are_forgotten(implementation: Any) -> None:
    filed = implementation(100)
    for number in range(50):
        filed.begin(b"%d" % number)
        filed.change({b"%d" % number: {bytes(10): True}})
        assert filed.places <= 100
    assert filed.known(b"0", 1) is None


@pytest.mark.skipif(not native.COMPILED, reason="only compiled code must not read past a key")
def test_what_is_no_position_is_refused() -> None:
    with pytest.raises(ValueError, match="position"):
        native.Filed(100).load(b"a", [b"short"], is_whole=True)
