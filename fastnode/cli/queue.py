"""`fastnode queue …`: the table of its commands and their flags. What they do is in
`queue_looks.py` (nothing changes) and `queue_changes.py`.
"""

from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final

from fastnode.cli import queue_changes as changes
from fastnode.cli import queue_looks as looks
from fastnode.cli.actions import Action, Parser, pair, run_action, whole_number
from fastnode.cli.node_client import SqsClient
from fastnode.cli.queue_export import export
from fastnode.cli.queue_import import import_
from fastnode.cli.queues import Queues
from fastnode.cli.target import target_of, with_target

_STATES: Final = ("visible", "delayed", "in_flight")
_HELP_END: Final = (
    "All take --endpoint URL, --admin HOST:PORT, --ca FILE, --region R, --credentials FILE,"
    " --config FILE and --json."
)


def queue(arguments: Sequence[str]) -> int:
    return run_action("queue", ACTIONS, arguments, _HELP_END)


def _asking(run: Callable[[Queues, Namespace], str]) -> Callable[[Namespace], str]:
    def ask(given: Namespace) -> str:
        with closing(SqsClient(target_of(given))) as client:
            return run(Queues(client), given)

    return ask


def _name(parser: Parser) -> None:
    parser.add_argument("queue", metavar="QUEUE", help="name or URL of the queue")
    with_target(parser)


def _yes(parser: Parser) -> None:
    _name(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _ls(parser: Parser) -> None:
    parser.add_argument("prefix", metavar="PREFIX", nargs="?", default="", help="of the names")
    parser.add_argument("--names", action="store_true", help="names only, one per line")
    with_target(parser)


def _create(parser: Parser) -> None:
    _name(parser)
    parser.add_argument(
        "--attribute",
        metavar="NAME=VALUE",
        type=pair,
        action="append",
        default=[],
        help="as of CreateQueue, such as VisibilityTimeout=45; repeat it for more",
    )
    parser.add_argument(
        "--tag", metavar="NAME=VALUE", type=pair, action="append", default=[], help="repeat it"
    )
    parser.add_argument("--dlq", metavar="QUEUE", help="where messages go that fail too often")
    parser.add_argument(
        "--max-receives", metavar="N", type=whole_number, help="with --dlq: how often (default 5)"
    )


def _send(parser: Parser) -> None:
    parser.add_argument("queue", metavar="QUEUE", help="name or URL of the queue")
    parser.add_argument(
        "body", metavar="BODY", nargs="?", help="the message; - reads it from stdin"
    )
    parser.add_argument("--lines", action="store_true", help="each line of stdin is a message")
    parser.add_argument("--group", metavar="ID", help="message group (FIFO and fair queues)")
    parser.add_argument("--dedup", metavar="ID", help="deduplication id (FIFO queues)")
    parser.add_argument("--delay", metavar="SECONDS", type=whole_number, help="hide it so long")
    parser.add_argument(
        "--attribute",
        metavar="NAME=VALUE",
        type=pair,
        action="append",
        default=[],
        help="message attribute, a string; repeat it for more",
    )
    with_target(parser)


def _peek(parser: Parser) -> None:
    _name(parser)
    parser.add_argument("--state", choices=_STATES, default=_STATES[0], help="which messages")
    parser.add_argument(
        "--limit", metavar="N", type=whole_number, default=10, help="how many (default 10)"
    )
    parser.add_argument("--full", action="store_true", help="whole bodies, up to 256 KiB each")


def _redrive(parser: Parser) -> None:
    _name(parser)
    parser.add_argument("--to", metavar="QUEUE", help="where to (default: where each came from)")
    parser.add_argument("--rate", metavar="N", type=whole_number, help="messages per second")
    parser.add_argument("--no-wait", action="store_true", help="start it and return")
    parser.add_argument("--cancel", action="store_true", help="end the one that runs")


def _export(parser: Parser) -> None:
    parser.add_argument("queue", metavar="QUEUE", nargs="*", help="which (default: all)")
    parser.add_argument("--out", metavar="FILE", help="a new file (default: stdout)")
    parser.add_argument(
        "--receive", action="store_true", help="by ReceiveMessage, from anything that speaks SQS"
    )
    parser.add_argument(
        "--consume", action="store_true", help="with --receive: delete what is written"
    )
    parser.add_argument(
        "--visibility",
        metavar="SECONDS",
        type=whole_number,
        default=600,
        help="with --receive: hide messages so long meanwhile (default 600)",
    )
    with_target(parser)


def _import(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="of an export (default: stdin)")
    parser.add_argument("--keep", action="store_true", help="use queues that exist otherwise, too")
    parser.add_argument("--queues-only", action="store_true", help="leave out the messages")
    parser.add_argument(
        "--no-policies", action="store_true", help="leave out who may do what, and dead letters"
    )
    parser.add_argument("--partial", action="store_true", help="take a file that was cut short")
    parser.add_argument(
        "--from-line", metavar="N", type=whole_number, default=1, help="pass over messages before"
    )
    with_target(parser)


def _watch(parser: Parser) -> None:
    parser.add_argument("queue", metavar="QUEUE", nargs="*", help="which (default: the deepest)")
    parser.add_argument(
        "--interval", metavar="SECONDS", type=whole_number, default=2, help="default 2"
    )
    parser.add_argument(
        "--count", metavar="N", type=whole_number, default=0, help="stop after N looks"
    )
    with_target(parser)


ACTIONS: Final[dict[str, Action]] = {
    "ls": Action("ls [PREFIX]", "list queues and what is in them", _ls, _asking(looks.ls)),
    "show": Action("show QUEUE", "show all about one queue", _name, _asking(looks.show)),
    "create": Action("create QUEUE [FLAG...]", "create a queue", _create, _asking(changes.create)),
    "send": Action(
        "send QUEUE [BODY]", "send a message, or a line each", _send, _asking(changes.send)
    ),
    "peek": Action(
        "peek QUEUE", "look at messages without receiving them", _peek, _asking(looks.peek)
    ),
    "purge": Action("purge QUEUE", "delete all messages of a queue", _yes, _asking(changes.purge)),
    "redrive": Action(
        "redrive QUEUE [--to QUEUE]",
        "move the messages of a dead-letter queue back",
        _redrive,
        _asking(changes.redrive),
    ),
    "rm": Action("rm QUEUE", "delete a queue and its messages", _yes, _asking(changes.remove)),
    "export": Action(
        "export [QUEUE...] [--out FILE]",
        "write queues and messages as JSON lines",
        _export,
        _asking(export),
    ),
    "import": Action(
        "import [FILE]", "make queues and send messages of an export", _import, _asking(import_)
    ),
    "watch": Action(
        "watch [QUEUE...]", "show depths, again and again", _watch, _asking(looks.watch)
    ),
}
