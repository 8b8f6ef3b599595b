"""`fastnode restore BACKUP`: a data directory for one node, which begins a new cluster."""

import os
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from fastnode.backup.restore import Restored, restore
from fastnode.backup.vault import open_vault
from fastnode.cli.actions import Parser, whole_number
from fastnode.cli.target import with_json
from fastnode.cli.terminal import Progress, as_json
from fastnode.clock import SystemIdSource
from fastnode.errors import UsageError
from fastnode.settings import load_settings

_NODE_ID_MAX: Final = 65_535


def restore_command(arguments: Sequence[str]) -> int:
    """0 when the directory can be started."""
    given = restore_parser().parse(arguments)
    flags = {} if given.data_dir is None else {"data_dir": given.data_dir}
    path = Path(load_settings(flags, os.environ).data_dir).absolute()
    if not 1 <= given.node_id <= _NODE_ID_MAX:
        raise UsageError(f"--node-id must be from 1 to {_NODE_ID_MAX}, not {given.node_id}")
    progress = Progress("bytes")
    with closing(open_vault(Path(given.backup).absolute())) as vault:
        try:
            made = restore(vault, path, given.node_id, SystemIdSource(), progress.show)
        finally:
            progress.end()
    sys.stdout.write(_as_json(made, path) if given.json else _in_words(made, path))
    return 0


def restore_parser() -> Parser:
    parser = Parser(
        prog="fastnode restore",
        usage="fastnode restore BACKUP [--data-dir DIR] [--node-id N] [--json]",
        description="Make the data directory of one node, which begins a new cluster, of a backup.",
    )
    parser.add_argument("backup", metavar="BACKUP", help="the directory that a backup was made in")
    parser.add_argument("--data-dir", metavar="DIR", help="where to; new or empty")
    parser.add_argument(
        "--node-id", metavar="N", type=whole_number, default=1, help="of the node (default 1)"
    )
    with_json(parser)
    return parser


def _as_json(made: Restored, path: Path) -> str:
    return as_json({"data_dir": str(path), **made._asdict()})


def _in_words(made: Restored, path: Path) -> str:
    node = f" --node-id {made.node_id}" if made.node_id != 1 else ""
    return (
        f"restored {made.groups} groups, {made.total_bytes:,} bytes, as node {made.node_id} of the"
        f" new cluster {made.cluster_id}\n"
        f"start it with: fastnode run --data-dir {path}{node}; others --join it\n"
    )
