"""The fenced blocks of a Markdown page, and what a test does with each. Pure: text in, blocks out.

- `sh` is run by one shell per page, in order; `python` is run as a program of its own; of `console`
  the lines after `$ ` are run, and the other lines are what they print (`…` stands for anything).
- A block whose first line is a comment with a file's name is that file, whatever its language.
- `json` and `toml` must parse. Every other language is only shown; a block without one is an error.

A comment before a block changes that: `<!-- not run: WHY -->`; `<!-- slow -->` leaves it to
`make docs-check`; `<!-- server -->` is for a node that serves the blocks after it,
`<!-- background -->` for a program that runs beside them and must end well.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

RUN: Final = frozenset({"sh", "console", "python"})
MARKS: Final = frozenset({"slow", "server", "background"})
_FENCE: Final = re.compile(
    r"(?P<indent> *)```(?P<language>[\w-]*)\n(?P<text>.*?\n)(?P=indent)```\n", re.S
)
_COMMENT: Final = re.compile(r"<!-- (?P<words>[^>]+?) -->\n\n?\Z")
_FILE_NAME: Final = re.compile(r"(?:#|//|<!--) ?(?P<name>[\w-]+\.[a-z]{2,10})(?: -->)?\n")
_COMMAND: Final = re.compile(r"^(?:fastnode(?! ready)|make|aws|curl|pip|npm|python|export) ", re.M)


class Block(NamedTuple):
    line: int
    language: str
    text: str
    # Of the comment before it; a reason why it is not run is in `reason`.
    mark: str = ""
    reason: str = ""

    @property
    def file_name(self) -> str:
        match = _FILE_NAME.match(self.text)
        return match["name"] if match else ""

    @property
    def is_run(self) -> bool:
        return self.language in RUN and not self.reason and not self.file_name


def blocks_of(page: str) -> Iterator[Block]:
    for match in _FENCE.finditer(page):
        text = re.sub(f"^{match['indent']}", "", match["text"], flags=re.M)
        mark, reason = _mark_before(page[: match.start()])
        line = page.count("\n", 0, match.start()) + 1
        yield Block(line, match["language"], text, mark, reason)


def _mark_before(text: str) -> tuple[str, str]:
    match = _COMMENT.search(text)
    if match is None:
        return "", ""
    words = match["words"]
    if words.startswith("not run: "):
        return "", words.removeprefix("not run: ")
    return (words, "") if words in MARKS else ("", "")


def complaints_about(page: str) -> Iterator[str]:
    """What keeps a reader, or the test, from knowing what a block is."""
    for block in blocks_of(page):
        if not block.language:
            yield f"{block.line}: a block without a language: sh if it can be run, text if not"
        elif block.language == "text" and _COMMAND.search(block.text) and not block.reason:
            yield f"{block.line}: commands in a block that is not run: make it sh, or say why not"
        if block.reason and len(block.reason) < 10:
            yield f"{block.line}: {block.reason!r} is no reason"
    if page.count("<!-- not run: ") != sum(bool(block.reason) for block in blocks_of(page)):
        yield "0: a mark that stands before no block"


class Exchange(NamedTuple):
    """A command of a `console` block and what it prints."""

    command: str
    expected: str

    def matches(self, printed: str) -> bool:
        pattern = re.escape(self.expected.rstrip("\n")).replace("…", ".*")
        return re.fullmatch(pattern, printed.rstrip("\n")) is not None


def exchanges(block: Block) -> Iterator[Exchange]:
    for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
        command, _, expected = part.partition("\n")
        yield Exchange(command, expected)
