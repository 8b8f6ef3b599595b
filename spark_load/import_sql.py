"""The queries of `import`, from calls to operations. Text only; `:name` is a parameter."""

from typing import Final

# Names become hashes that nobody can look up without the salt; what was equal stays equal.
ANONYMOUS: Final = """
SELECT time_us, duration_us, action, max_messages, wait,
    if(queue = '', '', concat('q-', left(sha2(concat(:salt, queue), 256), 12),
        if(queue LIKE '%.fifo', '.fifo', ''))) AS queue,
    concat('t-', left(sha2(concat(:salt, tenant), 256), 12)) AS tenant,
    transform(messages, message -> named_struct(
        'size', message.size,
        'group', concat('g-', left(sha2(concat(:salt, message.group), 256), 12)),
        'delay', message.delay)) AS messages
FROM calls
"""

# What producers did. A batch for several groups of a FIFO queue becomes one batch for each, because
# a group stays in one lane and a call cannot be in two.
OPERATIONS: Final = """
SELECT bigint((time_us - :begin) / :speed) AS at_us, action, queue,
    coalesce(tenant, if(queue LIKE '%.fifo', NULL, one.group)) AS tenant,
    if(queue LIKE '%.fifo', coalesce(one.group, 'g0'), one.group) AS group,
    if(queue LIKE '%.fifo', filter(messages, message -> message.group <=> one.group), messages)
        AS messages
FROM named_calls
LATERAL VIEW OUTER explode(
    if(queue LIKE '%.fifo', array_distinct(transform(messages, message -> message.group)),
        transform(slice(messages, 1, 1), message -> message.group))) one AS group
WHERE array_contains(:actions, action) AND (queue <> '' OR action = 'ListQueues')
"""

# Slices of time, numbered each for itself: nothing sorts all operations in one place.
NUMBERED: Final = """
WITH sliced AS (SELECT *, at_us DIV :slice AS slice FROM producer_calls),
starts AS (
    SELECT slice, sum(count(*)) OVER (ORDER BY slice) - count(*) AS start
    FROM sliced GROUP BY slice)
SELECT start - 1 + row_number() OVER (
        PARTITION BY slice ORDER BY at_us, queue, group, action, tenant, messages) AS op,
    at_us, queue, action, tenant, group, messages
FROM sliced JOIN starts USING (slice)
"""

TRACE: Final = """
SELECT op, at_us, queue, action, tenant, group,
    if(queue LIKE '%.fifo', concat(queue, '/', group), string(op)) AS lane_key,
    transform(messages, (message, place) -> named_struct(
        'key', concat(:trace, '-', op, '-', place),
        'size', greatest(message.size, length(concat(:trace, '-', op, '-', place))),
        'delay', if(queue LIKE '%.fifo', NULL, message.delay),
        'dedup', if(queue LIKE '%.fifo', concat(:trace, '-', op, '-', place), NULL))) AS messages
FROM numbered_calls
"""

# As many consumers as there were polls open at a time.
QUEUES: Final = """
SELECT queue,
    sum(if(action = 'ReceiveMessage', duration_us, 0)) AS polling_us,
    coalesce(max(max_messages), 10) AS max_messages,
    coalesce(max(wait), 1) AS wait
FROM named_calls WHERE queue <> '' GROUP BY queue ORDER BY queue
"""
