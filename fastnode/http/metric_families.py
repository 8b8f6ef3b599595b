"""Every metric that a node exports: its kind, what it tells, and what several workers make of it.
Pure. `docs/metrics.md`, the dashboard and the alerts are held to this table by a test.
"""

from typing import Final, Literal, NamedTuple

Kind = Literal["counter", "gauge", "histogram", "untyped"]
# What the values of several workers are together.
Merge = Literal["sum", "max", "min"]


class Family(NamedTuple):
    name: str
    kind: Kind
    help: str
    merge: Merge = "sum"


FAMILIES: Final = (
    # --- requests
    Family("fastnode_requests_total", "counter", "requests by action and outcome"),
    Family("fastnode_request_seconds", "histogram", "from a request's arrival to its answer"),
    Family("fastnode_requests_shed_total", "counter", "requests turned away, by reason"),
    Family("fastnode_connections_cut_total", "counter", "connections cut off, by reason"),
    Family("fastnode_requests_under_way", "gauge", "transactions that are not applied yet"),
    Family("fastnode_backlog_places", "gauge", "places for work that are taken"),
    Family("fastnode_backlog_places_limit", "gauge", "places for work that there are now"),
    Family("fastnode_long_polls_waiting", "gauge", "receives that wait for a message"),
    # --- commits and the log
    Family("fastnode_commit_transactions", "histogram", "transactions of one group commit"),
    Family("fastnode_stage_seconds", "histogram", "a group commit's stages: gather, log, apply"),
    Family("fastnode_log_sync_seconds", "histogram", "writing and syncing a block of the log"),
    Family("fastnode_log_fsyncs_total", "counter", "syncs of the log"),
    Family("fastnode_log_blocks_total", "counter", "blocks written to the log"),
    Family("fastnode_log_bytes", "gauge", "size of the log"),
    Family("fastnode_log_repaired_bytes", "gauge", "torn end that the last start cut off"),
    Family("fastnode_conflicts_total", "counter", "transactions that did not land, by kind"),
    Family("fastnode_dedup_hits_total", "counter", "what was known already, by kind"),
    # --- Raft
    Family("fastnode_raft_leader", "gauge", "node that leads the group, 0 for nobody", "max"),
    Family("fastnode_raft_leads", "gauge", "1 if this node leads the group", "max"),
    Family("fastnode_raft_term", "gauge", "term of the group", "max"),
    Family("fastnode_raft_commit", "gauge", "last committed entry of the group", "max"),
    Family("fastnode_raft_applied", "gauge", "last applied entry of the group", "max"),
    Family("fastnode_raft_last", "gauge", "last entry of the group", "max"),
    Family("fastnode_raft_peer_lag_entries", "gauge", "entries that a peer of the leader lacks"),
    Family("fastnode_raft_leader_changes_total", "counter", "times that a group got a leader"),
    Family("fastnode_raft_elections_total", "counter", "times that this node stood for election"),
    # --- queues
    Family("fastnode_queue_messages", "gauge", "messages of the deepest queues, by state"),
    Family("fastnode_queue_oldest_seconds", "gauge", "age of the oldest message of them", "max"),
    Family("fastnode_queues_in_memory", "gauge", "queues that are kept at hand"),
    # --- receives
    Family("fastnode_receive_looks_total", "counter", "times that messages were chosen"),
    Family("fastnode_receive_partitions_total", "counter", "partitions looked into"),
    Family("fastnode_receive_rows_total", "counter", "rows looked at"),
    Family("fastnode_receive_choosing_seconds", "histogram", "choosing messages for a receive"),
    Family("fastnode_receive_choosing_seconds_max", "gauge", "the longest choosing", "max"),
    # --- retries
    Family("fastnode_retry_gate", "gauge", "1 if it is on and every member knows it", "min"),
    Family("fastnode_calls_repeated_total", "counter", "attempts after one with a lost outcome"),
    Family("fastnode_calls_recognised_total", "counter", "calls that had landed before"),
    Family("fastnode_requests_remembered", "gauge", "identities of calls that are remembered"),
    Family("fastnode_retry_window_seconds", "gauge", "how far back every call is known", "min"),
    # --- workers
    Family("fastnode_connections_handed_over_total", "counter", "given to their queue's worker"),
    Family("fastnode_connections_not_handed_over_total", "counter", "not taken by that worker"),
    Family("fastnode_calls_for_siblings_total", "counter", "calls forwarded between workers"),
    # --- disk and process
    Family("fastnode_disk_free_bytes", "gauge", "free space of the data directory's disk", "min"),
    Family("fastnode_disk_bytes", "gauge", "size of that disk", "max"),
    Family("fastnode_disk_reserve_bytes", "gauge", "below it new messages are refused", "max"),
    Family("fastnode_accepts_messages", "gauge", "0 while the disk is too full for more", "min"),
    Family("fastnode_engine_bytes", "gauge", "size of the storage engines, by kind"),
    Family("fastnode_engine_errors", "gauge", "failures of the engines' background work"),
    Family(
        "fastnode_certificate_expiry_timestamp_seconds",
        "gauge",
        "when the certificate for clients, or members, ends, in seconds since 1970",
        "min",
    ),
    Family("fastnode_build_info", "gauge", "1, with the version", "max"),
    Family("process_cpu_seconds_total", "counter", "CPU time of the node"),
    Family("process_resident_memory_bytes", "gauge", "memory of the node"),
    Family("process_virtual_memory_bytes", "gauge", "address space of the node"),
    Family("process_open_fds", "gauge", "open files and connections"),
    Family("process_max_fds", "gauge", "how many the node may have open"),
    Family("process_start_time_seconds", "gauge", "when the node was started", "min"),
)
BY_NAME: Final = {family.name: family for family in FAMILIES}
_SUFFIXES: Final = ("_bucket", "_sum", "_count")


def family_of(sample: str) -> Family:
    """Of a line's name with its labels. One that is missing in the table is exported all the same,
    without an explanation: to look at a node must not end it.
    """
    name = sample.partition("{")[0]
    for suffix in ("", *_SUFFIXES):
        found = BY_NAME.get(name.removesuffix(suffix))
        if found is not None:
            return found
    return Family(name, "untyped", "not explained yet")
