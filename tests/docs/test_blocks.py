"""The reader of pages bites: what it takes for a command, what it refuses."""

from pathlib import Path

from tests.docs.blocks import Block, Exchange, blocks_of, complaints_about, exchanges
from tests.docs.shell import free_ports, run_page

PAGE = """# A page

```sh
true
```

<!-- not run: there is no second machine here -->
```sh
ssh b
```

<!-- slow -->
```python
import time
```

```python
# app.py
print("once")
```
"""


def test_blocks_are_found_with_their_marks() -> None:
    assert list(blocks_of(PAGE)) == [
        Block(3, "sh", "true\n"),
        Block(8, "sh", "ssh b\n", reason="there is no second machine here"),
        Block(13, "python", "import time\n", mark="slow"),
        Block(17, "python", '# app.py\nprint("once")\n'),
    ]
    assert [block.is_run for block in blocks_of(PAGE)] == [True, False, True, False]
    assert [block.file_name for block in blocks_of(PAGE)] == ["", "", "", "app.py"]


def test_a_block_must_say_what_it_is() -> None:
    assert list(complaints_about(PAGE)) == []
    for page in (
        "```\nfastnode run\n```\n",
        "```text\nfastnode run\n```\n",
        "<!-- not run: no -->\n```sh\nx\n```\n",
        "<!-- not run: it stands before no block -->\n",
    ):
        assert len(list(complaints_about(page))) == 1, page


def test_what_a_console_prints_is_compared() -> None:
    block = Block(1, "console", "$ echo a\na\n$ date\n…2026…\n")
    assert list(exchanges(block)) == [Exchange("echo a", "a\n"), Exchange("date", "…2026…\n")]
    assert Exchange("", "took … ms\n").matches("took 12 ms\n")
    assert not Exchange("", "took … ms\n").matches("took 12 s\n")


def test_a_command_that_fails_ends_the_page(tmp_path: Path) -> None:
    page = "```sh\nVALUE=1\n```\n\n```sh\ntest $VALUE = 2\n```\n\n```sh\necho never\n```\n"
    ended = run_page(page, "page", tmp_path, free_ports(), 30, slow=False)
    assert (ended.code, ended.place) == (1, "page:5")
    assert "never" not in ended.output


def test_a_program_beside_the_page_must_end_well(tmp_path: Path) -> None:
    page = "<!-- background -->\n```sh\nexit 3\n```\n\n```sh\ntrue\n```\n"
    assert run_page(page, "page", tmp_path, free_ports(), 30, slow=False).code == 3
