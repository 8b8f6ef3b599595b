"""Measurements: each hot path against its twin, and a whole node against a bare echo server.

The harness only; what is measured lives in `fastnode`. No module here imports `fastnode` to do
load: a node under load is a process of its own, as a client sees it.
"""
