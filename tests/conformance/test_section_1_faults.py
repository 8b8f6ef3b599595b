"""The contract, sections 1.4 and 1.6: how a fault of the server looks.

No client can provoke one on a healthy node, so here the codecs are asked directly.
"""

import pytest

from fastnode.http.json_codec import JsonCodec
from fastnode.http.query_codec import QueryCodec
from fastnode.queue.errors import SqsError, internal_failure, service_unavailable
from fastnode.queue.operations import OPERATIONS
from tests.conformance.client import Refused, Reply, json_refusal, parse_xml, xml_refusal
from tests.conformance.contract import covers
from tests.conformance.kinds import CORAL, Kind


def refusal_of(protocol: str, error: SqsError) -> Refused:
    codec = JsonCodec(OPERATIONS) if protocol == "json" else QueryCodec(OPERATIONS)
    status, head, body = codec.encode_error(error, "an-id")
    lines = (line.partition(": ") for line in head.decode().splitlines())
    reply = Reply(status, {name.lower(): value for name, _, value in lines}, body)
    return json_refusal(reply) if protocol == "json" else xml_refusal(parse_xml(reply), reply)


@covers("1.6.server-faults", "1.4.error-type-server")
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (internal_failure(), Kind(CORAL + "InternalFailure", "InternalFailure", 500)),
        (
            service_unavailable("later"),
            Kind(CORAL + "ServiceUnavailableException", "ServiceUnavailable", 503),
        ),
    ],
)
def test_a_fault_of_the_server_is_the_receivers(protocol: str, error: SqsError, kind: Kind) -> None:
    refusal_of(protocol, error).assert_is(kind)
