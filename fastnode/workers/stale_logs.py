"""Logs that no longer count, or do not yet: see `log_move.py`."""

import shutil

from fastnode.datadir import DataDir, worker_log_path


def remove_stale_logs(data: DataDir) -> None:
    """What an interrupted move has prepared, or one that is through has left."""
    logs = worker_log_path(data.path, 0, 0)
    counts = worker_log_path(data.path, data.log_epoch, 0).parent.name if data.log_epoch else ""
    for entry in logs.iterdir():
        if entry.is_dir() and entry.name != counts:
            shutil.rmtree(entry)
        elif counts and entry.is_file():
            entry.unlink()
