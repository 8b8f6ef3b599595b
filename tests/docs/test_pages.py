"""Every command of README.md and docs/ is run, in order, by a shell, against a real node; what is
not run says why. `blocks.py` has the convention.
"""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.docs.blocks import Block, blocks_of, complaints_about, exchanges
from tests.docs.shell import HOST, Ended, free_ports, run_page
from tests.nodes import ROOT, JsonClient, Node

PAGES: Final = ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
# Their commands are run by tests of their own, for the stated reason.
ELSEWHERE: Final = {
    "docs/load.md": "needs Spark: tests/spark runs the commands of the load pipeline",
    "docs/security.md": "a node that is open to the network; each row names the test that shows it",
}
# A block more that nobody runs is a decision, not an accident.
NOT_RUN: Final = 13
# Far more than it takes: a busy machine is no reason to fail.
QUICK_SECONDS: Final = 600
SLOW_SECONDS: Final = 900


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def own_pages() -> list[str]:
    return [page for page in PAGES if page not in ELSEWHERE]


def pages_with_commands(*, slow: bool) -> list[str]:
    def is_run(block: Block) -> bool:
        return block.is_run and (slow or block.mark != "slow")

    return [page for page in own_pages() if any(map(is_run, blocks_of(text_of(page))))]


def slow_pages() -> list[str]:
    return [
        page
        for page in own_pages()
        if any(block.is_run and block.mark == "slow" for block in blocks_of(text_of(page)))
    ]


class Running(NamedTuple):
    """A node for all pages that start none themselves, and its first port."""

    node: Node
    base: int

    def forget_queues(self) -> None:
        client = JsonClient(self.node.sqs_url)
        for url in client.call("ListQueues").get("QueueUrls", []):
            client.call("DeleteQueue", QueueUrl=url)
        client.close()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    base = free_ports()
    ports = ("--listen", f"{HOST}:{base}", "--admin", f"{HOST}:{base + 1}")
    with Node(tmp_path_factory.mktemp("node") / "data", *ports) as node:
        yield Running(node, base)
        assert "Traceback" not in node.stderr_tail()


def outcome(page: str, folder: Path, running: Running, seconds: float, *, slow: bool) -> Ended:
    text = text_of(page)
    if any(block.mark == "server" and block.is_run for block in blocks_of(text)):
        return run_page(text, page, folder, free_ports(), seconds, slow=slow)
    try:
        return run_page(text, page, folder, running.base, seconds, slow=slow)
    finally:
        running.forget_queues()


def require_printed(page: str, ended: Ended) -> None:
    for block in blocks_of(text_of(page)):
        if block.language == "console" and block.is_run and block.mark != "slow":
            for number, exchange in enumerate(exchanges(block)):
                printed = (ended.folder / f"printed-{block.line}-{number}").read_text()
                assert exchange.matches(printed), f"{page}:{block.line} prints\n{printed}"


@pytest.mark.timeout(QUICK_SECONDS + 60)
@pytest.mark.parametrize("page", pages_with_commands(slow=False))
def test_commands_do_what_the_page_says(page: str, running: Running, tmp_path: Path) -> None:
    ended = outcome(page, tmp_path, running, QUICK_SECONDS, slow=False)
    assert ended.code == 0, f"{ended.place} ended with {ended.code}\n{ended.output[-4_000:]}"
    require_printed(page, ended)


@pytest.mark.long
@pytest.mark.timeout(SLOW_SECONDS + 60)
@pytest.mark.parametrize("page", slow_pages())
def test_all_commands_do_what_the_page_says(page: str, running: Running, tmp_path: Path) -> None:
    ended = outcome(page, tmp_path, running, SLOW_SECONDS, slow=True)
    assert ended.code == 0, f"{ended.place} ended with {ended.code}\n{ended.output[-4_000:]}"


@pytest.mark.parametrize("page", own_pages())
def test_every_block_says_what_it_is(page: str) -> None:
    assert list(complaints_about(text_of(page))) == []


def test_blocks_that_are_not_run_are_counted() -> None:
    reasons = [block.reason for page in own_pages() for block in blocks_of(text_of(page))]
    found = [reason for reason in reasons if reason]
    assert len(found) == NOT_RUN, "\n".join(found)


@pytest.mark.parametrize("page", own_pages())
def test_json_and_toml_parse(page: str) -> None:
    for block in blocks_of(text_of(page)):
        if block.language == "json":
            json.loads(block.text)
        elif block.language == "toml":
            tomllib.loads(block.text)


# --- links --------------------------------------------------------------------------------------

LINK: Final = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")


def anchors_of(text: str) -> set[str]:
    """As the usual renderers make them of headings."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in plain}


def broken_links(path: Path) -> Iterator[str]:
    for match in LINK.finditer(path.read_text(encoding="utf-8")):
        name, _, anchor = match["target"].partition("#")
        if "://" in name:
            continue
        target = (path.parent / name) if name else path
        if not target.exists():
            yield match["target"]
        elif anchor and anchor not in anchors_of(target.read_text(encoding="utf-8")):
            yield match["target"]


@pytest.mark.parametrize(
    "page", [*PAGES, *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").glob("*/*.md"))]
)
def test_links_lead_somewhere(page: str) -> None:
    assert list(broken_links(ROOT / page)) == []


def test_the_index_names_every_page() -> None:
    index = text_of("docs/README.md")
    names = {Path(page).name for page in PAGES if page.startswith("docs/")} - {"README.md"}
    assert {name for name in names if f"({name})" not in index} == set()
