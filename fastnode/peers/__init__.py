"""Links between the nodes of a cluster: who may connect, and how packets and calls travel.

For: one authenticated connection per pair of nodes, Raft packets and calls with answers on it,
urgent frames before bulk, and finding the peers again when a connection is lost. Not for: what a
packet or a call means. It knows neither Raft nor queues; both are registered by whoever builds it.

`frames`, `handshake`, `lanes` and `offsets` decide and do no I/O; `greeting`, `link`, `dialer` and
`peers` are the shell around them.

Invariants: nothing a stranger sends reaches a service or Raft; a call ends exactly once; every
backlog has a bound, and what does not fit is refused or dropped and counted, never kept.
"""
