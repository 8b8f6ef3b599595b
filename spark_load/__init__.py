"""The load pipeline: Spark generates a trace, replays it open-loop against a cluster and judges the
recorded history.

A client like any other: it speaks SQS over HTTP and never imports `fastnode`. `schema.py` is what
its parts agree on: a trace is what shall be sent when, a history is what came of it. Commands:
`generate` and `import` make traces, `replay` makes a history, `verify` and `report` read one.
"""
