"""What a command of the pipeline says in one line instead of a stack trace.

Bugs are not here: their traceback is wanted.
"""


class LoadError(Exception):
    """Wrong usage or input, or something outside cannot be reached: one line, exit code 2."""
