"""When attempts may be repeated under one identity: the rule over all histories of what members
say, and a real data directory that remembers it.
"""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.cluster.capabilities import DEDUP, HTFIFO, Advertised
from fastnode.cluster.retry_gate import RetryGate, capable_now
from fastnode.datadir import DataDir, open_data_dir
from fastnode.queue.retry import Gates
from fastnode.settings import Settings

KNOWS, LACKS, AWAY = (HTFIFO, DEDUP), (HTFIFO,), None
LOG = logging.getLogger("fastnode.test")
CLOSED = "retries are not deduplicated"
OPENED = "retries are deduplicated: every member knows them"


@pytest.fixture
def data(tmp_path: Path) -> Iterator[DataDir]:
    opened = open_data_dir(Settings(data_dir=str(tmp_path / "data"), groups=1))
    yield opened
    opened.close()


class Setup:
    """A node among others, as it sees them."""

    def __init__(self, data: DataDir, others: Advertised, *wanted: bool) -> None:
        self.others = others
        self.gates = Gates()
        repeats, recognises = wanted or (True, True)
        self.gate = RetryGate(
            self.gates,
            lambda: self.others,
            data,
            LOG,
            repeats_calls=repeats,
            recognises_retries=recognises,
        )

    def see(self, others: Advertised) -> bool:
        self.others = others
        self.gate.look()
        return self.is_open

    @property
    def both(self) -> tuple[bool, bool]:
        return self.gates.repeats_calls, self.gates.recognises_retries

    @property
    def is_open(self) -> bool:
        assert len(set(self.both)) == 1, "wanted both"
        return self.gates.repeats_calls


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [
        f"{record.getMessage()} {vars(record).get('reason', '')}".strip()
        for record in caplog.records
    ]
    caplog.clear()
    return lines


def test_a_node_that_is_alone_waits_for_nobody(
    data: DataDir, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert Setup(data, {}).is_open
    assert said(caplog) == []


@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True), (False, False)])
def test_each_gate_opens_only_if_the_operator_wants_it(
    data: DataDir, wanted: tuple[bool, bool], caplog: pytest.LogCaptureFixture
) -> None:
    setup = Setup(data, {}, *wanted)
    assert setup.both == wanted
    setup.others = {2: KNOWS, 3: LACKS}
    setup.gate.look()
    assert setup.both == (False, False)
    assert len(said(caplog)) == any(wanted)
    setup.others = {2: KNOWS, 3: KNOWS}
    setup.gate.look()
    assert setup.both == wanted


@pytest.mark.parametrize(
    ("others", "is_open"),
    [
        ({2: KNOWS, 3: KNOWS}, True),
        ({2: (DEDUP, "other"), 3: (DEDUP,)}, True),
        ({2: KNOWS, 3: LACKS}, False),
        ({2: KNOWS, 3: ()}, False),
        ({2: KNOWS, 3: ("dedup2", "DEDUP")}, False),
        ({2: KNOWS, 3: AWAY}, False),
        ({2: AWAY, 3: AWAY}, False),
    ],
)
def test_it_opens_when_every_member_has_said_so(
    data: DataDir, others: Advertised, is_open: bool
) -> None:
    assert Setup(data, others).is_open is is_open


def test_a_member_that_goes_away_closes_nothing(data: DataDir) -> None:
    setup = Setup(data, {2: KNOWS, 3: KNOWS})
    assert setup.see({2: KNOWS, 3: AWAY})
    assert setup.see({2: AWAY, 3: AWAY})


def test_a_member_that_comes_back_without_it_closes_at_once(data: DataDir) -> None:
    setup = Setup(data, {2: KNOWS, 3: KNOWS})
    assert not setup.see({2: KNOWS, 3: LACKS})
    assert not setup.see({2: KNOWS, 3: AWAY}), "what it said last counts"
    assert setup.see({2: KNOWS, 3: KNOWS})


def test_a_new_member_closes_until_it_is_heard(data: DataDir) -> None:
    setup = Setup(data, {2: KNOWS})
    assert not setup.see({2: KNOWS, 4: AWAY})
    assert setup.see({2: KNOWS, 4: KNOWS})


def test_a_member_that_is_removed_holds_nothing_back(data: DataDir) -> None:
    setup = Setup(data, {2: KNOWS, 3: LACKS})
    assert setup.see({2: KNOWS})


def test_a_number_that_comes_back_is_somebody_else(data: DataDir) -> None:
    setup = Setup(data, {2: KNOWS, 3: KNOWS})
    assert setup.see({2: KNOWS})
    assert not setup.see({2: KNOWS, 3: AWAY})


def test_what_members_said_outlives_the_process(data: DataDir) -> None:
    Setup(data, {2: KNOWS, 3: KNOWS})
    again = Setup(data, {2: AWAY, 3: AWAY})
    assert again.is_open
    assert not again.see({2: AWAY, 3: LACKS})
    assert not Setup(data, {2: AWAY, 3: AWAY}).is_open
    assert not Setup(data, {2: AWAY, 4: AWAY}).is_open


def test_every_change_is_one_line_that_names_who_is_missing(
    data: DataDir, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    setup = Setup(data, {2: AWAY, 3: AWAY})
    assert said(caplog) == [f"{CLOSED} node 2: not heard yet; node 3: not heard yet"]
    setup.see({2: KNOWS, 3: AWAY})
    assert said(caplog) == []
    setup.see({2: KNOWS, 3: LACKS})
    assert said(caplog) == [f"{CLOSED} node 3: does not advertise dedup"]
    setup.see({2: KNOWS, 3: LACKS})
    assert said(caplog) == []
    setup.see({2: KNOWS, 3: KNOWS})
    assert said(caplog) == [OPENED]
    setup.see({2: KNOWS, 3: AWAY})
    assert said(caplog) == []
    setup.see({2: LACKS, 3: KNOWS})
    assert said(caplog) == [f"{CLOSED} node 2: does not advertise dedup"]


def test_nothing_is_written_while_nothing_changes(data: DataDir) -> None:
    setup = Setup(data, {2: KNOWS})
    (data.path / "CAPABLE").unlink()
    setup.see({2: KNOWS})
    setup.see({2: AWAY})
    assert not (data.path / "CAPABLE").exists()
    setup.see({2: LACKS})
    assert data.capable_peers(DEDUP) == frozenset()


sights = st.dictionaries(st.integers(2, 4), st.sampled_from([KNOWS, LACKS, AWAY]))


@given(st.lists(sights, min_size=1, max_size=8))
def test_a_member_is_believed_exactly_if_its_last_word_was_yes(
    history: Sequence[Advertised],
) -> None:
    """Its last word since it is a member."""
    capable: frozenset[int] = frozenset()
    for at, seen in enumerate(history):
        capable = capable_now(capable, seen)
        assert capable == {node for node in seen if last_word(history[: at + 1], node) == KNOWS}


def last_word(history: Sequence[Advertised], node: int) -> tuple[str, ...] | None:
    for seen in reversed(history):
        if node not in seen:
            return None
        if seen[node] is not None:
            return seen[node]
    return None
