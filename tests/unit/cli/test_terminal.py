"""Tables, bars and batches: what the commands show and send."""

import pytest

from fastnode.cli.queue_changes import batches
from fastnode.cli.terminal import bar, confirm, table
from fastnode.config import MESSAGE_BYTES_MAX
from fastnode.errors import UsageError


def test_numbers_stand_to_the_right() -> None:
    rows = [("a", "1,200", "x"), ("long", "-", "y")]
    assert table(("NAME", "N", "T"), rows) == ("NAME      N  T\na     1,200  x\nlong      -  y\n")


def test_a_cell_is_one_line() -> None:
    assert table(("A",), [("one\ntwo\x1b",)]) == "A\none\\ntwo\\x1b\n"


@pytest.mark.parametrize(
    ("done", "total", "shown"),
    [
        (0, 0, "0 m"),
        (5, 10, "[###############               ]  50%  5 of 10 m"),
        (12, 10, "[##############################] 100%  12 of 10 m"),
    ],
)
def test_bar(done: int, total: int, shown: str) -> None:
    assert bar(done, total, "m") == shown


def test_lines_are_sent_by_tens_and_by_size() -> None:
    assert [len(batch) for batch in batches(str(n) for n in range(23))] == [10, 10, 3]
    half = "x" * (MESSAGE_BYTES_MAX // 2)
    assert [len(batch) for batch in batches([half, half, half, "", "y"])] == [2, 2]
    assert list(batches([])) == []


def test_a_script_has_to_confirm_beforehand() -> None:
    confirm("Really?", is_confirmed=True)
    with pytest.raises(UsageError, match="Really"):
        confirm("Really?", is_confirmed=False)
