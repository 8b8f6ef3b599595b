"""Where a node with workers begins, and one that had workers before.

A supervisor does little and should take little memory, so what only some starts need is loaded when
they need it.
"""

import os
from collections.abc import Callable

from fastnode.datadir import DataDir, open_data_dir
from fastnode.settings import Settings
from fastnode.workers.assignment import worker_count
from fastnode.workers.stale_logs import remove_stale_logs
from fastnode.workers.supervisor import supervise


async def run_workers(settings: Settings, *, on_ready: Callable[[str, str], None]) -> None:
    """As `serve`, for a node that is not one process, or was not when it ran last."""
    if settings.credentials:
        _check_credentials(settings.credentials)
    if settings.tls_cert:
        _check_certificate(settings.tls_cert, settings.tls_key)
    data = open_data_dir(settings)
    try:
        workers = worker_count(settings.workers, len(os.sched_getaffinity(0)), data.groups)
        _lay_out(data, workers)
        if workers > 1:
            await supervise(settings, data, workers, on_ready=on_ready)
    finally:
        data.close()
    if workers == 1:
        from fastnode.serve import serve

        await serve(settings, on_ready=on_ready)


def _check_credentials(path: str) -> None:
    """Workers read it too, but a file that nobody can use is to leave no data directory."""
    from fastnode.http.credentials import CredentialsFile

    CredentialsFile(path)


def _check_certificate(certificate: str, key: str) -> None:
    """As the credentials."""
    from fastnode.http.listener_tls import ListenerTls

    ListenerTls(certificate, key, now=lambda: 0.0)


def _lay_out(data: DataDir, workers: int) -> None:
    """The logs of so many workers are in place."""
    remove_stale_logs(data)
    if data.workers != workers:
        from fastnode.workers.log_move import move_logs

        move_logs(data, workers)
