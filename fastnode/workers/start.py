"""Where a node with workers begins, and one that had workers before."""

import os
from collections.abc import Callable

from fastnode.datadir import DataDir, open_data_dir
from fastnode.http.credentials import CredentialsFile
from fastnode.serve import serve
from fastnode.settings import Settings
from fastnode.workers.assignment import worker_count
from fastnode.workers.log_move import move_logs
from fastnode.workers.supervisor import supervise


async def run_workers(settings: Settings, *, on_ready: Callable[[str, str], None]) -> None:
    """As `serve`, for a node that is not one process, or was not when it ran last."""
    if settings.credentials:
        # Workers read it too, but a file that nobody can use is to leave no data directory.
        CredentialsFile(settings.credentials)
    data = open_data_dir(settings)
    try:
        workers = _laid_out(settings, data)
        if workers > 1:
            await supervise(settings, data, workers, on_ready=on_ready)
    finally:
        data.close()
    if workers == 1:
        await serve(settings, on_ready=on_ready)


def _laid_out(settings: Settings, data: DataDir) -> int:
    """How many workers there will be; their logs are in place."""
    workers = worker_count(settings.workers, len(os.sched_getaffinity(0)), data.groups)
    move_logs(data, workers)
    return workers
