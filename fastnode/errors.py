"""The error bases. A leaf: imports nothing of ours.

Three families, never mixed. A *bug* is an `AssertionError` and ends the process. An *operation*
failed for a reason that the caller can do something about (overload, no leader, full disk): an
`OperationError`. A *client* sent something wrong: an `SqsError`, which lives with its table in
`queue/errors.py`.
"""


class FastnodeError(Exception):
    """Base of everything we raise on purpose; with what a command exits that ends so."""

    exit_code = 1


class StartError(FastnodeError):
    """The node cannot start; one line that says what to do next."""


class UsageError(FastnodeError):
    """The command line, the environment or the configuration file is wrong."""

    exit_code = 2


class LogFailed(FastnodeError, OSError):
    """The disk failed under the log: nothing that the process believes is safe to act on."""


class OperationError(FastnodeError):
    """A call could not be carried out now; the client may repeat it after `retry_after_seconds`."""

    retry_after_seconds: int = 1


class Overloaded(OperationError):
    """More unapplied work than the bound allows: refused before it cost anything."""


class PlanAgain(OperationError):
    """The state changed under the plan: nothing was written, a new plan may succeed."""


class Busy(OperationError):
    """Something of the kind is under way and has to end first."""


class Unavailable(OperationError):
    """Nobody can answer for the queue's group at the moment. Nothing was written."""


class Unsettled(Unavailable):
    """Nobody knows whether it took effect. Whoever repeats it must use the same identity."""


class NotLed(Unavailable):
    """Somebody else leads the group, or nobody yet. Nothing was written: ask whoever leads it."""


class DeadlineExceeded(OperationError):
    """The call waited as long as it may; whether it took effect is unknown."""


class DiskFull(OperationError):
    """New messages are refused because free space fell below the reserve."""

    retry_after_seconds: int = 5
