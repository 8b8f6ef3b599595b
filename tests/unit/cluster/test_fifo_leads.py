"""FIFO order, exactly one delivery and nothing lost, while leads change between any two steps."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cluster.fifo_leads import FifoLeads

NODE = st.integers(1, 3)
GROUP = st.integers(0, 2)
EVENT = st.one_of(
    st.tuples(st.just("send"), NODE, st.integers(0, 4)),
    st.tuples(st.just("send"), NODE, st.integers(0, 4)),
    st.tuples(st.just("receive"), NODE, st.sampled_from([1, 2, 10])),
    st.tuples(st.just("receive"), NODE, st.sampled_from([1, 2, 10])),
    st.tuples(st.just("delete"), NODE, st.integers(0, 9)),
    st.tuples(st.just("lead"), GROUP, NODE, st.booleans()),
    st.tuples(st.just("lead"), GROUP, NODE, st.booleans()),
    st.tuples(st.just("depose"), GROUP),
    st.tuples(st.just("step"), st.integers(1, 6)),
    st.tuples(st.just("step"), st.integers(1, 6)),
    st.tuples(st.just("stick"), GROUP),
    st.tuples(st.just("cut"), NODE, st.booleans()),
    st.tuples(st.just("mend"), NODE),
    st.tuples(st.just("advance"), st.sampled_from([60, 400, 1_100, 3_000])),
)


@pytest.mark.parametrize("partitions", [1, 4])
@given(events=st.lists(EVENT, max_size=40))
def test_no_history_of_leads_breaks_a_rule(partitions: int, events: list[tuple[Any, ...]]) -> None:
    history = FifoLeads(partitions)
    for name, *arguments in events:
        getattr(history, name)(*arguments)
    history.finish()
