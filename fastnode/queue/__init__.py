"""The SQS domain: what the actions mean, as rules over values and as transactions planned on the
leader.

For: one handler per action, the rules they share, and the leader's memory of a queue (what a
receive chooses from). Not for: bytes on a socket (`http`), or how a transaction becomes durable
(`store`).

Invariants: a handler awaits transactions, latches and wake-ups, nothing else; leader memory follows
the applied state and can be thrown away at any time; time is the transaction's own commit
timestamp.
"""
