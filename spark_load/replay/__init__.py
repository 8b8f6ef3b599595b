"""Replays a trace against SQS endpoints, open loop, and records a history of every call.

From the wire upwards: `signing` and `requests` make the bytes of a request ahead of its slot,
`http1` and `answers` read what comes back, `judgement` says what it means and `attempts` whether
the call is tried again. All of these are pure. `connections` and `caller` do the talking; `pacer`
sends what is due, `consumer` receives and deletes, `recorder` writes Parquet. `lane` is all of that
in one task, `job` runs lanes as one barrier stage, `control` prepares and counts the queues,
`progress` and `show` tell what goes on. Nothing here judges a history: that is the verifier's.

What holds: a call's latency counts from the moment it was due, whatever held it up; every attempt
is one row; nothing that grows with the trace is held in memory.
"""
