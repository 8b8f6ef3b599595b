"""What pages show of the code's own tables is what the code says today."""

from pathlib import Path

import pytest

from fastnode.queue.operations import OPERATIONS
from tests.clients import table
from tests.clients.catalog import CLIENTS
from tests.clients.table import Result
from tests.conformance.contract import Row
from tests.docs import generated


@pytest.mark.parametrize("path", generated.pages(), ids=lambda path: path.name)
def test_committed_pages_are_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == generated.pages()[path], "run make docs"


def test_a_rule_that_is_not_kept_is_said_so() -> None:
    row = Row("0.2.a", "0.2", "A | B", ("wild",), ("json",), "later", "Because")
    page = generated.compatibility_page({"0.2.a": row})
    assert "1 rules, 0 kept, 1 not:\n\n- A | B: because.\n" in page
    assert "| A \\| B | json | wild | **no** |\n" in page
    assert f"All {len(OPERATIONS)}, by JSON" in page


def test_the_table_of_clients_is_that_of_the_pins_and_all_have_passed() -> None:
    """A version that is raised, or a client that is added, asks for a new run of `make clients`."""
    expected = table.table([Result(client, "passed", "") for client in CLIENTS])
    assert table.committed_table() == expected, "run make clients"


def test_a_result_that_is_not_good_is_shown_as_it_is() -> None:
    client = CLIENTS[0]
    assert table.row(Result(client, "failed", "a traceback")).endswith("| failed |\n")
    skipped = Result(client, "skipped", "go is not installed")
    assert table.row(skipped).endswith("| not run: go is not installed |\n")
    page = f"a\n{table.BEGIN}old\n{table.END}b\n"
    assert table.put_into(page, "new\n") == f"a\n{table.BEGIN}\nnew\n\n{table.END}b\n"
