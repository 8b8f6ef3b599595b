"""The load pipeline: Spark generates a trace, replays it open-loop against a cluster and judges the
recorded history.

A client like any other: it speaks SQS over HTTP and never imports `fastnode`. Nothing is here yet
but the package, so that the `spark` extra has its place; `make run` does not install it.
"""
