"""A fuzzer's input as a small script, so that a failing one can be read: one request per line.

`+1500` lets that many milliseconds pass. In a request `$Q` stands for the URL of the queue, `$H`
for the latest receipt handle, `$N` for the latest page token, `$T` for the latest task handle.
Which request a line is, each fuzzer says.
"""

import re
from collections.abc import Callable
from typing import Final

from tests.fuzz.wire_world import Answer, WireWorld

LINES_MAX: Final = 24
_PAUSE: Final = re.compile(rb"\+([0-9]{1,9})")
_PLACES: Final = re.compile(rb"\$[QHNT]")

Ask = Callable[[WireWorld, bytes], Answer]


def run_script(script: bytes, ask: Ask) -> None:
    world = WireWorld()
    values = {b"$Q": world.queue_url.encode(), b"$H": world.handle.encode()}
    for line in script.split(b"\n")[:LINES_MAX]:
        pause = _PAUSE.fullmatch(line)
        if pause is not None:
            world.world.advance(int(pause[1]))
        elif line:
            answer = ask(world, _PLACES.sub(lambda at: values.get(at[0], b""), line))
            _remember(values, answer)
    world.require_service()


def _remember(values: dict[bytes, bytes], answer: Answer) -> None:
    """Both formats of an answer, JSON and XML, are searched alike."""
    for place, name in ((b"$H", b"ReceiptHandle"), (b"$N", b"NextToken"), (b"$T", b"TaskHandle")):
        found = re.search(name + rb'(?:": ?"|>)([^"<]+)', answer[2])
        if found is not None:
            values[place] = found[1]
