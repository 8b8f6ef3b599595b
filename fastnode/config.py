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

# --- HTTP -----------------------------------------------------------------------------------------
# One legal 1 MiB message can need 6 MiB as JSON, so the body cap leaves room and sizes are checked
# after decoding.
HTTP_BODY_BYTES_MAX: Final = 8 * 1_048_576
HTTP_HEADER_BYTES_MAX: Final = 32 * 1024
HTTP_HEADERS_MAX: Final = 100
HTTP_HEADER_SECONDS: Final = 10.0
HTTP_BODY_SECONDS: Final = 60.0
HTTP_IDLE_SECONDS: Final = 75.0
# The longest poll and then as long as a call may take; who waits longer is told to try again.
HTTP_ANSWER_SECONDS: Final = 30.0
HTTP_PIPELINE_MAX: Final = 64
HTTP_CONNECTIONS_MAX: Final = 20_000
HTTP_WRITE_BUFFER_BYTES_MAX: Final = 16 * 1_048_576
DRAIN_SECONDS: Final = 8.0

# --- Transactions and groups ----------------------------------------------------------------------
GROUPS_DEFAULT: Final = 8
GROUPS_MAX: Final = 256
ENTRY_BYTES_MAX: Final = 16 * 1_048_576
UNAPPLIED_TRANSACTIONS_MAX: Final = 16_384
UNAPPLIED_BYTES_MAX: Final = 128 * 1_048_576
LATCH_WAITERS_MAX: Final = 16_384
# Waiting for loop turns that add nothing more makes fsync groups larger; four turns bound the added
# latency.
GATHER_TURNS_MAX: Final = 4
TICK_SECONDS: Final = 0.1

# --- Leader memory --------------------------------------------------------------------------------
LIVE_QUEUES_MAX: Final = 50_000
RESOLVED_URLS_MAX: Final = 10_000
READ_AHEAD_MESSAGES: Final = 1_024
READ_AHEAD_BYTES: Final = 4 * 1_048_576
TIMER_PAGE: Final = 10_000
DUE_TIMERS_MAX: Final = 150_000

# --- Storage --------------------------------------------------------------------------------------
BLOCK_CACHE_BYTES: Final = 64 * 1_048_576
WRITE_BUFFER_BYTES: Final = 64 * 1_048_576
FLUSH_INTERVAL_SECONDS: Final = 30.0
LOG_BYTES_BEFORE_FLUSH: Final = 256 * 1_048_576
LOG_SEGMENT_BYTES: Final = 64 * 1_048_576
DISK_RESERVE_BYTES: Final = 512 * 1_048_576
DISK_RESERVE_FRACTION: Final = 0.02
# On a disk below 2 GiB the reserve is this part of it, or a small disk would take no message.
DISK_RESERVE_FRACTION_MAX: Final = 0.25
