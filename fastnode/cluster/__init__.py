"""Where things of a cluster belong, and what its members must agree on before they are used.

For: the capabilities that members advertise, the question to all of them before a queue gets
partitions, the groups that partitions live in, and handing on a lead that a node must not have. Not
for: what a queue or a partition is (`queue`), or how a leader is elected (`raft`).

Invariants: whoever does not answer, answers too late or answers nonsense does not have the
capability; clients learn that something is refused, never which member is the reason.
"""
