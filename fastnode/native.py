"""The single door to compiled code: everything outside of tests imports these names from here.

`FASTNODE_PURE=1` chooses the readable twins. Otherwise the compiled modules must be there: a node
that quietly ran without them would be an outage that nobody can see. Constants and types are the
twins' own in both cases.
"""

import os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final

from fastnode._core_ref import (
    ADD,
    DELETE,
    DROP,
    FRESH_DELETE,
    FRESH_PUT,
    MAX,
    MESSAGE_DELAYED,
    MESSAGE_FILED,
    MESSAGE_MOVED,
    PUT,
    TOUCH,
    MessageRecord,
    MessageState,
    Receipt,
    Transaction,
)
from fastnode._deliver_ref import TIMER_DELAYED, TIMER_RECEIVED, HandoutKeys, PlaceKeys, Write
from fastnode._fifo_ref import Head
from fastnode._http_ref import CHUNKED, RefusedError
from fastnode._keys_ref import (
    FAMILY_AGE,
    FAMILY_COUNTER,
    FAMILY_DATA,
    FAMILY_DEDUP,
    FAMILY_GENERATION,
    FAMILY_GROUP,
    FAMILY_ID,
    FAMILY_MARK,
    FAMILY_META,
    FAMILY_READY,
    FAMILY_STATE,
    FAMILY_TIMER,
    FAMILY_TOMBSTONE,
    PARTITIONED,
    UNPARTITIONED,
    ParsedKey,
)
from fastnode._landed_ref import HeadChanges, Outcome
from fastnode._meter_ref import TIME_SHIFT
from fastnode._occ_ref import (
    APPLIED,
    CLASSES,
    CONFLICT,
    DUPLICATE,
    STALE,
    TOO_OLD,
    Resolved,
)
from fastnode._plain_ref import PlainBatch, PlainSend
from fastnode._plan_ref import FifoDraft
from fastnode._query_ref import (
    FLAG,
    KEY,
    LIST,
    MAP,
    NUMBER,
    OCTETS,
    ONE,
    PARAMETERS_MAX,
    STRUCT,
    TEXT,
    VALUE,
    Element,
    Field,
    FormError,
)
from fastnode._reads_ref import PlainDelete, PlainReceive
from fastnode._send_ref import FifoKeys, PlannedSend, SendKeys
from fastnode._ways import WAYS

COMPILED: Final = os.environ.get("FASTNODE_PURE") != "1"


def _check_ways() -> None:
    """Python would run the sources of what was not compiled, and say nothing."""
    package = Path(__file__).parent
    for name in WAYS:
        stem = str(package.joinpath(*name.split(".")))
        if not any(os.path.exists(stem + suffix) for suffix in EXTENSION_SUFFIXES):
            raise ImportError(f"fastnode.{name} is not compiled")


if COMPILED:
    try:
        _check_ways()
        from fastnode._core import (
            decode_message,
            decode_receipt,
            decode_state,
            encode_entry,
            encode_message,
            encode_receipt,
            encode_state,
            encode_transaction,
            message_id,
            message_id_position,
            message_id_text,
            receipt_is_genuine,
            receipt_tag,
            sequence_number,
            siphash24,
        )
        from fastnode._deliver import (
            hidden_messages,
            open_receipts,
            page_items,
            place_plain,
            plan_delete,
            plan_deliveries,
            plan_receive,
            plan_removals,
            show_deliveries,
            show_messages,
            state_keys,
            take_plain,
        )
        from fastnode._entry import Entry
        from fastnode._fifo import Fresh, Handed, Ready
        from fastnode._filed import Filed
        from fastnode._held import Held, HeldBatch
        from fastnode._http import Request, take_request, take_whole
        from fastnode._keys import (
            counter_key,
            dedup_key,
            group_key,
            home_group,
            id_key,
            message_key,
            parse_key,
            partition_for,
            prefix_end,
            queue_key,
            queue_segment,
            scope_prefix,
            split_message_key,
            split_queue_segment,
            split_timer_key,
            text,
            timer_key,
            tombstone_key,
        )
        from fastnode._landed import head_changes, write_landed, write_sums
        from fastnode._meter import Times, boottime_ns, now_ns, wall_seconds
        from fastnode._occ import Resolver
        from fastnode._plain import read_batch, read_send
        from fastnode._plan import Recent, encode_text, is_token, plain_drafts
        from fastnode._query import FormReader, XmlWriter, escape_xml, find_parameter
        from fastnode._reads import read_delete, read_delete_batch, read_receive
        from fastnode._send import (
            fill_answer,
            fill_batch_answer,
            plan_bodies,
            plan_fifo_sends,
            plan_send,
            plan_sends,
        )
        from fastnode._sigv4 import Proof, prove
    except ImportError as error:
        raise ImportError(
            f"the compiled modules cannot be loaded ({error}); run `make build`,"
            " or set FASTNODE_PURE=1 to run without them, much slower"
        ) from error
else:
    from fastnode._core_ref import (
        decode_message,
        decode_receipt,
        decode_state,
        encode_entry,
        encode_message,
        encode_receipt,
        encode_state,
        encode_transaction,
        message_id,
        message_id_position,
        message_id_text,
        receipt_is_genuine,
        receipt_tag,
        sequence_number,
        siphash24,
    )
    from fastnode._deliver_ref import (
        hidden_messages,
        open_receipts,
        page_items,
        place_plain,
        plan_delete,
        plan_deliveries,
        plan_receive,
        plan_removals,
        show_deliveries,
        show_messages,
        state_keys,
        take_plain,
    )

    # To a type checker they are two classes; tests hold them to one behaviour.
    from fastnode._entry_ref import Entry  # type: ignore[assignment]
    from fastnode._fifo_ref import Fresh, Handed, Ready  # type: ignore[assignment]
    from fastnode._filed_ref import Filed  # type: ignore[assignment]
    from fastnode._held_ref import Held, HeldBatch  # type: ignore[assignment]
    from fastnode._http_ref import (  # type: ignore[assignment]
        Request,
        take_request,
        take_whole,
    )
    from fastnode._keys_ref import (
        counter_key,
        dedup_key,
        group_key,
        home_group,
        id_key,
        message_key,
        parse_key,
        partition_for,
        prefix_end,
        queue_key,
        queue_segment,
        scope_prefix,
        split_message_key,
        split_queue_segment,
        split_timer_key,
        text,
        timer_key,
        tombstone_key,
    )
    from fastnode._landed_ref import (  # type: ignore[assignment]
        head_changes,
        write_landed,
        write_sums,
    )
    from fastnode._meter_ref import (  # type: ignore[assignment]
        Times,
        boottime_ns,
        now_ns,
        wall_seconds,
    )
    from fastnode._occ_ref import Resolver  # type: ignore[assignment]
    from fastnode._plain_ref import read_batch, read_send
    from fastnode._plan_ref import (  # type: ignore[assignment] # two classes again
        Recent,
        encode_text,
        is_token,
        plain_drafts,
    )
    from fastnode._query_ref import (  # type: ignore[assignment]
        FormReader,
        XmlWriter,
        escape_xml,
        find_parameter,
    )
    from fastnode._reads_ref import read_delete, read_delete_batch, read_receive
    from fastnode._send_ref import (
        fill_answer,
        fill_batch_answer,
        plan_bodies,
        plan_fifo_sends,
        plan_send,
        plan_sends,
    )
    from fastnode._sigv4_ref import Proof, prove  # type: ignore[assignment]

# Packed: nobody reads it.
# fmt: off
__all__ = [
    "ADD", "APPLIED", "CHUNKED", "CLASSES", "COMPILED", "CONFLICT", "DELETE", "DROP",
    "DUPLICATE", "FAMILY_AGE", "FAMILY_COUNTER", "FAMILY_DATA", "FAMILY_DEDUP",
    "FAMILY_GENERATION", "FAMILY_GROUP", "FAMILY_ID", "FAMILY_MARK", "FAMILY_META",
    "FAMILY_READY", "FAMILY_STATE", "FAMILY_TIMER", "FAMILY_TOMBSTONE", "FLAG", "FRESH_DELETE",
    "FRESH_PUT", "KEY", "LIST", "MAP", "MAX", "MESSAGE_DELAYED", "MESSAGE_FILED",
    "MESSAGE_MOVED", "NUMBER", "OCTETS", "ONE", "PARAMETERS_MAX", "PARTITIONED", "PUT", "STALE",
    "STRUCT", "TEXT", "TIMER_DELAYED", "TIMER_RECEIVED", "TIME_SHIFT", "TOO_OLD", "TOUCH",
    "UNPARTITIONED", "VALUE", "Element", "Entry", "Field", "FifoDraft", "FifoKeys", "Filed",
    "FormError", "FormReader", "Fresh", "Handed", "HandoutKeys", "Head", "HeadChanges", "Held",
    "HeldBatch", "MessageRecord", "MessageState", "Outcome", "ParsedKey", "PlaceKeys",
    "PlainBatch", "PlainDelete", "PlainReceive", "PlainSend", "PlannedSend", "Proof", "Ready",
    "Receipt", "Recent", "RefusedError", "Request", "Resolved", "Resolver", "SendKeys", "Times",
    "Transaction", "Write", "XmlWriter", "boottime_ns", "counter_key", "decode_message",
    "decode_receipt",
    "decode_state", "dedup_key", "encode_entry", "encode_message", "encode_receipt",
    "encode_state", "encode_text", "encode_transaction", "escape_xml", "fill_answer",
    "fill_batch_answer", "find_parameter", "group_key", "head_changes", "hidden_messages",
    "home_group", "id_key", "is_token", "message_id", "message_id_position", "message_id_text",
    "message_key", "now_ns", "open_receipts", "page_items", "parse_key", "partition_for",
    "place_plain", "plain_drafts", "plan_bodies", "plan_delete", "plan_deliveries",
    "plan_fifo_sends", "plan_receive", "plan_removals", "plan_send", "plan_sends", "prefix_end",
    "prove", "queue_key", "queue_segment", "read_batch", "read_delete", "read_delete_batch",
    "read_receive", "read_send", "receipt_is_genuine", "receipt_tag", "scope_prefix",
    "sequence_number", "show_deliveries", "show_messages", "siphash24", "split_message_key",
    "split_queue_segment", "split_timer_key", "state_keys", "take_plain", "take_request",
    "take_whole", "text", "timer_key", "tombstone_key", "wall_seconds", "write_landed",
    "write_sums",
]
# fmt: on
