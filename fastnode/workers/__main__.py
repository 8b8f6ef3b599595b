"""A worker's process: `python -m fastnode.workers DESCRIPTOR`, started by a supervisor, which says
over that socket who it is. Not for anybody else.
"""

import logging
import os
import signal
import socket
import sys

import uvloop

from fastnode.logs import configure_logs
from fastnode.workers.control import Begin, open_control
from fastnode.workers.worker import serve_worker


async def _run(descriptor: int) -> int:
    control = await open_control(socket.socket(fileno=descriptor))
    begin = await control.hear()
    if not isinstance(begin, Begin):
        return 1
    settings = begin.settings
    configure_logs(settings.log_level, sys.stderr, settings.log_format)
    for handler in logging.getLogger().handlers:
        handler.addFilter(_Named(begin.worker))
    return await serve_worker(begin, control)


class _Named(logging.Filter):
    """Every line says whose it is."""

    def __init__(self, worker: int) -> None:
        super().__init__()
        self._worker = worker

    def filter(self, record: logging.LogRecord) -> bool:
        record.by_worker = self._worker
        return True


if __name__ == "__main__":
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    exit_code = uvloop.run(_run(int(sys.argv[1])))
    # It has stopped and ends in a moment: whoever asks once more is not to make a failure of it.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(exit_code)
