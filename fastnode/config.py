"""Every limit of the node, with its unit in its name. A leaf: imports nothing of ours.

What an operator may choose lives in `settings.py`; what lives here is fixed by the SQS contract, by
a file format or by a bound that keeps memory and time finite.
"""

from typing import Final

# --- SQS contract ---------------------------------------------------------------------------------
MESSAGE_BYTES_MAX: Final = 1_048_576
BATCH_ENTRIES_MAX: Final = 10
RECEIVE_MESSAGES_MAX: Final = 10
WAIT_SECONDS_MAX: Final = 20
VISIBILITY_SECONDS_MAX: Final = 43_200
DELAY_SECONDS_MAX: Final = 900
IN_FLIGHT_MESSAGES_MAX: Final = 120_000
LIST_PAGE_MAX: Final = 1_000
DEDUPLICATION_MS: Final = 300_000
# A tenant of a fair queue is noisy above one part in so many.
NOISY_SHARE: Final = 10
NOISY_IN_FLIGHT_MIN: Final = 30
NOISY_IDLE_MS: Final = 300_000
# How long one receive may look through the partitions of a queue.
FANOUT_MS: Final = 100
# How long messages are set aside for a receive that another node answers.
CLAIM_MS: Final = 1_000
# A purge or deletion that reaches a partition later than this is refused there.
RENEWAL_MS: Final = 5_000
MOVE_TASKS_KEPT: Final = 10
MOVE_TASKS_ACTIVE_MAX: Final = 100
MOVE_RATE_MAX: Final = 500
MOVE_TASK_MS_MAX: Final = 36 * 3_600_000
# Message groups that one step of a move task looks at.
MOVE_GROUPS_MAX: Final = 1_000

# --- HTTP -----------------------------------------------------------------------------------------
# One legal 1 MiB message can need 6 MiB as JSON, so the body cap leaves room and sizes are checked
# after decoding.
HTTP_BODY_BYTES_MAX: Final = 8 * 1_048_576
# Of all requests that have arrived in part, of all that have arrived and are not answered, and of
# all answers that are not read; without them twenty thousand clients could hold 160 GB each time.
HTTP_ARRIVING_BYTES_MAX: Final = 256 * 1_048_576
HTTP_OPEN_BYTES_MAX: Final = 256 * 1_048_576
HTTP_UNREAD_BYTES_MAX: Final = 256 * 1_048_576
HTTP_HEADER_BYTES_MAX: Final = 32 * 1024
HTTP_HEADERS_MAX: Final = 100
HTTP_HEADER_SECONDS: Final = 10.0
HTTP_BODY_SECONDS: Final = 60.0
HTTP_IDLE_SECONDS: Final = 75.0
# The longest poll and then as long as a call may take; who waits longer is told to try again.
HTTP_ANSWER_SECONDS: Final = 30.0
# From the first byte of a connection until TLS is there.
TLS_HANDSHAKE_SECONDS: Final = 10.0
HTTP_PIPELINE_MAX: Final = 64
HTTP_CONNECTIONS_MAX: Final = 20_000
# Files that a node needs for other things than clients: logs, tables, members.
FILES_RESERVED: Final = 1_024
HTTP_WRITE_BUFFER_BYTES_MAX: Final = 16 * 1_048_576
DRAIN_SECONDS: Final = 8.0
SIGNATURE_SKEW_SECONDS: Final = 15 * 60
# Callers, signing keys and claims that are remembered so that they need not be worked out again.
SIGNATURE_CACHE_MAX: Final = 1_024
CREDENTIALS_BYTES_MAX: Final = 1_048_576
# The newest files of the access log are kept: a GiB, some ten million requests.
ACCESS_LOG_FILE_BYTES_MAX: Final = 64 * 1_048_576
ACCESS_LOG_FILES_MAX: Final = 16

# --- Transactions and groups ----------------------------------------------------------------------
GROUPS_DEFAULT: Final = 8
GROUPS_MAX: Final = 256
# Of a high-throughput FIFO queue. A sequence number has no room for more of them.
PARTITIONS_DEFAULT: Final = 8
PARTITIONS_MAX: Final = 32
ENTRY_BYTES_MAX: Final = 16 * 1_048_576
# A sequence number has room for the messages of one transaction; larger moves are several.
TRANSACTION_MESSAGES_MAX: Final = 16
# A call whose plan the state has overtaken is planned again; more often means that it never lands.
PLANS_MAX: Final = 5
# How long background work waits before it tries again what could not be done now.
RETRY_MS: Final = 1_000
# Of all groups: places for transactions that are not applied, see `store/backlog.py`; and how long
# one should wait at most before fewer are let in.
BACKLOG_PLACES_MAX: Final = 8_192
BACKLOG_PLACES_MIN: Final = 512
BACKLOG_WAIT_MS: Final = 250
LATCH_WAITERS_MAX: Final = 16_384
LATCH_SECONDS: Final = 10.0
WAITING_READS_MAX: Final = 16_384
# Waiting for loop turns that add nothing more makes fsync groups larger; four turns bound the added
# latency.
GATHER_TURNS_MAX: Final = 4
# After so many blocks in a row beside which nearly nothing came, no more than one transaction to so
# many of the block's own, the loop's thread writes the next ones itself, if they are small. One in
# so many is left to the log's thread, to see what comes beside it.
CALM_BLOCKS_MIN: Final = 8
CALM_SHARE: Final = 8
CALM_TRANSACTIONS_MAX: Final = 32
CALM_LOOK_BLOCKS: Final = 64
# An idle node does little else than tick and answer heartbeats. An election begins 1.05 to 2 s
# after the last heartbeat; two of them may get lost before that.
TICK_SECONDS: Final = 0.15
ELECTION_TICKS: Final = 7
HEARTBEAT_TICKS: Final = 3
# How much faster a voter's clock may run than the leader's; crystals stay below a tenth of it.
CLOCK_DRIFT_PPM: Final = 1_000

# --- Rollout --------------------------------------------------------------------------------------
# What members may lack while they are upgraded one by one, by the names that they advertise.
CAPABILITIES: Final = ("htfifo", "dedup")
CAPABILITY_SECONDS: Final = 3.0
CAPABILITY_HEAD_BYTES_MAX: Final = 8 * 1024
CAPABILITY_BODY_BYTES_MAX: Final = 1_024
TRANSFER_RETRY_SECONDS: Final = 0.05

# --- Cluster --------------------------------------------------------------------------------------
# How long a call waits for a leader: while one is being elected, and when there was none for long.
ELECTION_WAIT_SECONDS: Final = 2.5
NO_LEADER_WAIT_SECONDS: Final = 0.8
# A forwarded call: the longest poll, and a little less than its client is made to wait.
FORWARD_SECONDS: Final = 28.0
# How long a node that stops waits for others to take its leads.
HANDOVER_SECONDS: Final = 2.0
BALANCE_SECONDS: Final = 2.0
TEND_SECONDS: Final = 0.5
# A member that comes back is given leads when it could be reached at so many looks in a row.
BALANCE_STEADY_LOOKS: Final = 3
# So long a lead stays where an operator has put it.
TRANSFER_HOLD_SECONDS: Final = 600.0
# A lead is not handed to a member that lacks more of the log.
TRANSFER_ENTRIES_BEHIND_MAX: Final = 1_000
CLUSTER_SECRET_BYTES_MIN: Final = 16

# --- Leader memory --------------------------------------------------------------------------------
LIVE_QUEUES_MAX: Final = 50_000
# URLs that are remembered, of no more characters than this; a URL with its queue has two rows of
# about 200 bytes. Fewer than queues in memory would send every call of many queues the long way.
RESOLVED_URLS_MAX: Final = LIVE_QUEUES_MAX
RESOLVED_URL_LENGTH_MAX: Final = 512
READ_AHEAD_MESSAGES: Final = 1_024
READ_AHEAD_BYTES: Final = 4 * 1_048_576
# Of all queues of a process together, with so much for each record beside its own bytes.
READ_AHEAD_ALL_BYTES: Final = 64 * 1_048_576
READ_AHEAD_RECORD_BYTES: Final = 128
TIMER_PAGE: Final = 10_000
READY_PAGE: Final = 10_000
# Messages of a FIFO queue that receives have taken, without large bodies, up to 750 bytes each.
HELD_MESSAGES_MAX: Final = 10_000
# Head rows of message groups that a Raft group keeps at hand, about 250 bytes each.
HEADS_REMEMBERED_MAX: Final = 20_000
# Counters and marks of queues, the same, about 200 bytes each; a queue in use has two to four.
SUMS_REMEMBERED_MAX: Final = 10_000
# Positions of messages in these groups, ten bytes each; a group counts as 16 of them, and takes 300
# bytes.
FILED_PLACES_MAX: Final = 400_000
# Tenants of a fair queue: of one page of them, as many as may be noisy at a time unless they still
# take too much, and as many as the time of consumers is told apart for, in periods.
TENANT_PAGE: Final = 1_024
NOISY_TENANTS_MAX: Final = 64
PROCESSING_TENANTS_MAX: Final = 1_024
PROCESSING_PERIOD_MS: Final = 60_000
DUE_TIMERS_MAX: Final = 150_000

# --- Retention ------------------------------------------------------------------------------------
SWEEP_INTERVAL_MS: Final = 1_000
# Queues looked at per round: those in memory, and those of the whole node.
SWEEP_LIVE_QUEUES: Final = 128
SWEEP_STORED_QUEUES: Final = 64
# Groups whose stored queues a round looks at; a node may have hundreds of empty ones.
SWEEP_GROUPS: Final = 8
# Messages (or other rows) that one transaction removes, and turns of queues in one round.
SWEEP_MESSAGES: Final = 64
SWEEP_STEPS: Final = 256
# Deduplication rows of a FIFO queue: how many a turn looks at, and how long it then makes way for
# others; and the time from the beginning of one walk over them to that of the next.
SWEEP_ROWS: Final = 512
SWEEP_PAUSE_MS: Final = 5
SWEEP_WALK_MS: Final = DEDUPLICATION_MS // 2

# --- Admin API ------------------------------------------------------------------------------------
# One page of a peek looks at no more rows, and ends after so many bytes of bodies.
PEEK_ROWS: Final = 1_000
PEEK_BYTES: Final = 4 * 1_048_576
# The last hour: slots, and the queues that have a ring of them, about 17 KB each.
HISTORY_SLOT_SECONDS: Final = 10
HISTORY_SLOTS: Final = 360
HISTORY_QUEUES_MAX: Final = 200
# Queues, or rows of counters, looked at before others have their turn; and rows per slot.
HISTORY_STEP: Final = 1_000
CENSUS_ROWS_MAX: Final = 20_000
CENSUS_DEEPEST: Final = 20
# Queues of one page that are shown with their counts.
DETAILS_PAGE_MAX: Final = 100
ADMIN_SESSIONS_MAX: Final = 1_000
ADMIN_SESSION_SECONDS: Final = 12 * 3_600
ADMIN_TOKENS_BYTES_MAX: Final = 65_536
ADMIN_TOKEN_CHARACTERS_MIN: Final = 16
# Of changes: a message of 1 MiB can need 6 MiB as JSON.
ADMIN_BODY_BYTES_MAX: Final = 7 * 1_048_576

# --- Metrics --------------------------------------------------------------------------------------
# Queues that have lines of their own, of each process: the deepest; and how many more one look at
# the metrics takes into consideration.
METRIC_QUEUES_MAX: Final = 100
METRIC_QUEUES_LOOK: Final = 500

# --- Storage --------------------------------------------------------------------------------------
BLOCK_CACHE_BYTES: Final = 64 * 1_048_576
# Memtables of all groups. Above the first bound the fullest are flushed. The second is RocksDB's,
# for what comes faster than that: there it flushes whichever group is written to, however little
# it has.
MEMTABLES_BYTES: Final = 48 * 1_048_576
MEMTABLES_BYTES_MAX: Final = 2 * MEMTABLES_BYTES
# Rows of each group that are held back from its engine, and their bytes. They are written in one
# breath, of 3 ms; of fewer, more are those of messages that are just being consumed.
HELD_ROWS_MAX: Final = 8_192
HELD_BYTES_MAX: Final = 2 * 1_048_576
# Batches that pass by once most rows stayed, before it is tried again, unless one takes rows away.
# Smaller ones together: each is a write of the engine, which is quicker with rows in order.
HELD_PAUSE_BATCHES: Final = 1_024
HELD_PASSING_ROWS_MIN: Final = 1_024
# So long a flush waits for an engine that takes no rows.
HELD_WAIT_SECONDS: Final = 10.0
FLUSH_INTERVAL_SECONDS: Final = 30.0
# While space is low: what was deleted gives its space back only when it is flushed and compacted.
LOW_SPACE_FLUSH_SECONDS: Final = 5.0
# A group with more is left to the compaction that its tombstones cause.
LOW_SPACE_COMPACT_BYTES: Final = 64 * 1_048_576
LOG_BYTES_BEFORE_FLUSH: Final = 256 * 1_048_576
# Of each group with several members, while the log is not long.
LOG_ENTRIES_KEPT: Final = 10_000
# And when it is: members that stop together are a few entries apart.
LOG_ENTRIES_KEPT_MIN: Final = 16
LOG_SEGMENT_BYTES: Final = 64 * 1_048_576
DISK_RESERVE_BYTES: Final = 512 * 1_048_576
DISK_RESERVE_FRACTION: Final = 0.02
# On a disk below 2 GiB the reserve is this part of it, or a small disk would take no message.
DISK_RESERVE_FRACTION_MAX: Final = 0.25

# --- Links between nodes --------------------------------------------------------------------------
# The largest entry and what surrounds it; also more than any request that may be forwarded.
PEER_FRAME_BYTES_MAX: Final = ENTRY_BYTES_MAX + 64 * 1024
# A longer frame is sent in pieces of this size, so that a heartbeat waits for one of them at most.
PEER_PIECE_BYTES: Final = 256 * 1024
PEER_BACKLOG_BYTES_MAX: Final = 32 * 1_048_576
# Of one link, in each direction.
PEER_CALLS_MAX: Final = 16_384
PEER_HANDSHAKES_MAX: Final = 64
PEER_HANDSHAKE_SECONDS: Final = 3.0
PEER_HANDSHAKE_BYTES_MAX: Final = 8 * 1024
PEER_PING_SECONDS: Final = 1.0
PEER_SILENT_SECONDS: Final = 5.0
PEER_DIAL_SECONDS_MIN: Final = 0.05
PEER_DIAL_SECONDS_MAX: Final = 2.0
PEER_CLOSE_SECONDS: Final = 1.0
PEER_CLOCK_PERIOD_NS: Final = 4_000_000_000
PEER_CLOCK_PERIODS: Final = 8

# --- Certificates ---------------------------------------------------------------------------------
PEM_BYTES_MAX: Final = 1_048_576
# Before its end a certificate is complained of, once a day.
CERTIFICATE_WARN_SECONDS: Final = 21 * 86_400
CERTIFICATE_WARN_PERIOD_SECONDS: Final = 86_400
