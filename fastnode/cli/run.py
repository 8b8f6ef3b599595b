"""`fastnode run`: settings, log lines, the event loop and the ready line. The node is `node.py`."""

import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

from fastnode.cli.flags import parse_flags
from fastnode.datadir import recorded_workers
from fastnode.logs import configure_logs
from fastnode.settings import Settings, load_settings

_OWN_FILES: Final = 0o077
_LOGGER: Final = logging.getLogger(__name__)


def run(arguments: Sequence[str]) -> int:
    """Serve until a signal ends it; 0 after a clean stop."""
    flags, config = parse_flags("run", arguments)
    settings = load_settings(flags, os.environ, config=config)
    configure_logs(settings.log_level, sys.stderr, settings.log_format)
    # What a node writes is for its own user, whatever the shell has set.
    os.umask(_OWN_FILES)
    warn_of_choices(settings)
    _check_queues(settings)
    _serve(settings)
    return 0


def warn_of_choices(settings: Settings) -> None:
    """Choices that are legal and that somebody will regret not having known about."""
    if settings.fsync == "never":
        _LOGGER.warning("fsync is off: a power cut or a kernel crash loses acknowledged messages")
    for name in settings.open_to_network:
        address = str(getattr(settings, name))
        _LOGGER.warning("the open API is reachable from the network", extra={name: address})
    if settings.admin_tokens and not (settings.tls_cert or settings.admin.is_loopback):
        _LOGGER.warning(
            "admin tokens travel as they are: give --tls-cert, or put TLS in front",
            extra={"admin": str(settings.admin)},
        )


def _check_queues(settings: Settings) -> None:
    """What is wrong with them leaves no data directory behind."""
    if settings.queues:
        from fastnode.queue.predeclared import check_declared
        from fastnode.serve import declaration

        check_declared(declaration(settings))


def announce(sqs_url: str, admin_url: str) -> None:
    """The line that scripts wait for; its shape is part of the interface."""
    sys.stdout.write(f"fastnode ready sqs={sqs_url} admin={admin_url}\n")
    sys.stdout.flush()


def _serve(settings: Settings) -> None:
    # Here and not on top, so that a wrong flag and --help are answered before these are loaded.
    import uvloop

    # gRPC would write a line in a form of its own whenever a stranger connects.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    if settings.workers == 1 and recorded_workers(settings) == 1:
        from fastnode.serve import serve

        uvloop.run(serve(settings, on_ready=announce))
    else:
        from fastnode.workers.start import run_workers

        uvloop.run(run_workers(settings, on_ready=announce))
    # It has stopped and ends in a moment: whoever asks once more is not to make a failure of it.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
