"""The commands of the `fastnode` program, one file each; what they do is done by other modules.

`commands.py` is the table of them. Imports inside functions are for here and `__main__` only: an
event loop and a storage engine that `fastnode version` does not need would make it wait.

A command takes its arguments and returns an exit code; it raises StartError or UsageError for
everything an operator can put right, and `__main__` turns these into one line.
"""
