"""Where a node with workers begins, and one that had workers before."""

from collections.abc import Callable

from fastnode.datadir import open_data_dir
from fastnode.serve import serve
from fastnode.settings import Settings
from fastnode.workers.log_move import move_logs
from fastnode.workers.supervisor import supervise


async def run_workers(settings: Settings, *, on_ready: Callable[[str, str], None]) -> None:
    """As `serve`, for a node that is not one process, or was not when it ran last."""
    if settings.workers != 1:
        await supervise(settings, on_ready=on_ready)
        return
    data = open_data_dir(settings)
    try:
        move_logs(data, 1)
    finally:
        data.close()
    await serve(settings, on_ready=on_ready)
