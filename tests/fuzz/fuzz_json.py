"""Any JSON body for any action, one after the other: `Action {"Member": ...}` per line.

Every request gets an answer of the contract's kind and no refused one changes anything: see
`wire_world.py`.
"""

from tests.fuzz.scripts import run_script
from tests.fuzz.wire_world import Answer, WireWorld


def check(data: bytes) -> None:
    run_script(data, _ask)


def _ask(world: WireWorld, line: bytes) -> Answer:
    action, _, body = line.partition(b" ")
    return world.ask_json(action, body)
