"""Transactions: planned on the leader, ordered by Raft, applied alike on every replica.

For: reading a group's state, planning a transaction against it, group commit, turning committed
entries into one write batch each. Not for: what a queue or a message means (`queue`), or how
entries become durable (`raft`).

Invariants: a transaction is planned and stamped in one synchronous step; a key with an unapplied
write is latched, so no plan reads state that is about to change; the applied index is written in
the same batch as what it stands for.
"""
