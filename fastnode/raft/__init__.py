"""Consensus and the durable log: entries go in on the leader, committed entries come out
everywhere.

For: one turn of all groups of a worker, and the shell that runs turns on an event loop. Not for:
what an entry contains. Consensus is raft-rs and the log is ours, both in the Rust extension behind
`groups.py`; nothing here elects or commits.

Invariants: at most one block is being made durable at a time, and everything gathered meanwhile
goes into the next; a machine sees committed entries once, in order.
"""
