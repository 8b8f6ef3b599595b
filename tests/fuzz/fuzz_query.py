"""Any parameters for any action: a line is the body of a form, or a target of a GET if it begins
with a slash. A line that begins with `json:` asks for the answer in JSON.

Every request gets an answer of the contract's kind and no refused one changes anything: see
`wire_world.py`.
"""

from tests.fuzz.scripts import run_script
from tests.fuzz.wire_world import Answer, WireWorld


def check(data: bytes) -> None:
    run_script(data, _ask)


def _ask(world: WireWorld, line: bytes) -> Answer:
    accept = b"application/json" if line.startswith(b"json:") else b""
    line = line.removeprefix(b"json:")
    if line.startswith(b"/"):
        return world.ask_query(b"GET", line, b"", accept)
    return world.ask_query(b"POST", b"/", line, accept)
