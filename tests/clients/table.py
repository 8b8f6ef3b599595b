"""The table of results in `docs/clients.md`: written by `make clients`, checked by `make test`.

Pure, except for the two functions that read and write the page.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from tests.clients.catalog import Client
from tests.nodes import ROOT

PAGE: Final = ROOT / "docs" / "clients.md"
BEGIN: Final = "<!-- written by make clients: begin -->\n"
END: Final = "<!-- written by make clients: end -->\n"
HEAD: Final = "| client | version | exercised | result |\n|---|---|---|---|\n"


class Result(NamedTuple):
    client: Client
    # passed, failed or skipped
    verdict: str
    reason: str


def row(result: Result) -> str:
    client = result.client
    shown = result.verdict if result.verdict != "skipped" else f"not run: {result.reason}"
    return f"| {client.name} | {client.version} | {', '.join(client.checks)} | {shown} |\n"


def table(results: Sequence[Result]) -> str:
    return HEAD + "".join(map(row, results))


def put_into(page: str, table: str) -> str:
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def committed_table() -> str:
    page = PAGE.read_text(encoding="utf-8")
    return page.split(BEGIN)[1].split(END)[0].strip() + "\n"


def write(results: Sequence[Result]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(put_into(page, table(results)), encoding="utf-8")
