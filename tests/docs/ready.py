"""Wait until the nodes at admin addresses are ready, as long as a process lives. A program.

`python ready.py PID HOST:PORT …`; the deadline is generous because a machine may be busy.
"""

import os
import sys
import time
import urllib.error
import urllib.request

SECONDS = 240


def is_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/readyz", timeout=20) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def main(pid: int, addresses: list[str]) -> int:
    deadline = time.monotonic() + SECONDS
    for address in addresses:
        while not is_ready(address):
            if time.monotonic() > deadline or not lives(pid):
                print(f"no node is ready at {address}")
                return 1
            time.sleep(0.05)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
