"""The contract, section 10: signatures, on a node that has credentials."""

import hashlib
import json
import re
from email.utils import formatdate

import pytest

from tests.conformance import kinds
from tests.conformance.client import (
    FORM_TYPE,
    JSON_TYPE,
    Client,
    Reply,
    Signer,
    json_refusal,
    parse_xml,
    xml_refusal,
)
from tests.conformance.contract import covers
from tests.conformance.kit import attributes, name_of, new_queue, receive, send, set_attributes
from tests.conformance.signing import (
    OWNER,
    STRANGER,
    HostUnsigned,
    Key,
    for_another_body,
    presigned,
    signed,
    spoilt,
    with_headers,
)

SIGNATURE_TEXT = (
    "The request signature we calculated does not match the signature you provided. Check your "
    "AWS Secret Access Key and signing method. Consult the service documentation for details."
)
EXPIRED = re.compile(
    r"Signature expired: \d{8}T\d{6}Z is now earlier than \d{8}T\d{6}Z \(\d{8}T\d{6}Z - 15 min\.\)"
)


def as_signed_by(sqs: Client, sign: Signer) -> Client:
    return sqs.another(sign)


def assert_refused(client: Client, kind: kinds.Kind, text: str | None = None) -> None:
    client.refused("ListQueues").assert_is(kind, text)


# --- what is accepted ---------------------------------------------------------------------------


@covers("10.1.scope", "10.1.header")
def test_a_signed_request_is_served(closed_sqs: Client, closed_queue: str) -> None:
    assert send(closed_sqs, closed_queue)["MessageId"]
    assert len(receive(closed_sqs, closed_queue)) == 1


@covers("10.1.scope")
def test_another_service_in_the_scope_is_refused(closed_sqs: Client) -> None:
    sign = signed(OWNER, service="sns")
    assert_refused(as_signed_by(closed_sqs, sign), kinds.BAD_SIGNATURE)


@covers("10.1.date-header")
def test_date_may_stand_for_the_amazon_header(closed_sqs: Client) -> None:
    client = as_signed_by(closed_sqs, with_headers(signed(OWNER), Date=formatdate(usegmt=True)))
    client.call("ListQueues")


@covers("10.1.session-token")
def test_a_session_token_may_come_along(closed_sqs: Client) -> None:
    as_signed_by(closed_sqs, signed(OWNER, token="some session token")).call("ListQueues")


@covers("10.1.signed-headers")
def test_every_header_that_is_named_is_verified(closed_sqs: Client) -> None:
    named = with_headers(signed(OWNER), X_Custom="one   two")
    as_signed_by(closed_sqs, named).call("ListQueues")
    changed = spoilt(named, lambda headers: headers | {"X-Custom": "three"})
    assert_refused(as_signed_by(closed_sqs, changed), kinds.BAD_SIGNATURE)
    unnamed = spoilt(signed(OWNER), lambda headers: headers | {"X-Custom": "three"})
    as_signed_by(closed_sqs, unnamed).call("ListQueues")


@covers("10.1.host-signed")
def test_a_signature_must_cover_the_host(closed_sqs: Client) -> None:
    refusal = as_signed_by(closed_sqs, signed(OWNER, auth=HostUnsigned)).refused("ListQueues")
    assert refusal.code in (kinds.BAD_SIGNATURE.code, kinds.INCOMPLETE.code)


@covers("10.1.payload")
def test_a_signature_covers_the_body(closed_sqs: Client) -> None:
    client = as_signed_by(closed_sqs, for_another_body(signed(OWNER)))
    assert_refused(client, kinds.BAD_SIGNATURE)


def with_payload_hash(closed_sqs: Client, value: str) -> Client:
    return as_signed_by(closed_sqs, with_headers(signed(OWNER), X_Amz_Content_SHA256=value))


@covers("10.1.payload-header", "10.1.unsigned-payload")
def test_a_payload_hash_must_be_that_of_the_body(closed_sqs: Client) -> None:
    body = b"{}" if closed_sqs.is_json else b"Action=ListQueues&Version=2012-11-05"
    with_payload_hash(closed_sqs, hashlib.sha256(body).hexdigest()).call("ListQueues")
    for value in (hashlib.sha256(b"other").hexdigest(), "UNSIGNED-PAYLOAD"):
        assert_refused(with_payload_hash(closed_sqs, value), kinds.BAD_SIGNATURE)


def get_url(client: Client, path: str, name: str) -> Reply:
    """GetQueueUrl on any path, which it is allowed on by both protocols."""
    if client.is_json:
        headers = {"Content-Type": JSON_TYPE, "X-Amz-Target": "AmazonSQS.GetQueueUrl"}
        return client.exchange("POST", path, headers, json.dumps({"QueueName": name}).encode())
    body = f"Action=GetQueueUrl&QueueName={name}".encode()
    return client.exchange("POST", path, {"Content-Type": FORM_TYPE}, body)


@covers("10.1.path")
@pytest.mark.parametrize(
    "path", ["/000000000000/a%2Db", "/000000000000/../000000000000/name", "//"]
)
def test_the_path_is_encoded_twice(closed_sqs: Client, closed_queue: str, path: str) -> None:
    reply = get_url(closed_sqs, path, name_of(closed_queue))
    assert closed_sqs.read("GetQueueUrl", reply) == {"QueueUrl": closed_queue}


@covers("10.1.query")
@pytest.mark.parametrize("query", ["b=2&a=1", "a=2&a=1&a=", "z=%20%2B~&%C3%A9=x", "b=&a="])
def test_the_query_string_is_sorted(closed_sqs: Client, closed_queue: str, query: str) -> None:
    reply = get_url(closed_sqs, f"/?{query}", name_of(closed_queue))
    assert closed_sqs.read("GetQueueUrl", reply) == {"QueueUrl": closed_queue}


@covers("10.1.presigned", only="query")
def test_a_presigned_link_works_on_a_queue_path(closed_sqs: Client, closed_queue: str) -> None:
    client = as_signed_by(closed_sqs, presigned(OWNER))
    path = closed_queue.removeprefix(client.url)
    reply = client.exchange("GET", f"{path}?Action=SendMessage&MessageBody=hello%20there", {})
    assert "MessageId" in client.read("SendMessage", reply)
    assert receive(closed_sqs, closed_queue)[0]["Body"] == "hello there"


def link(sqs: Client, **options: float) -> Reply:
    client = as_signed_by(sqs, presigned(OWNER, **options))  # type: ignore[arg-type] # whole seconds
    return client.exchange("GET", "/?Action=ListQueues", {})


@covers("10.1.presigned-expiry", "10.1.presigned-range", only="query")
def test_a_presigned_link_expires(closed_sqs: Client) -> None:
    assert link(closed_sqs, expires=300, minutes_off=-4).status == 200
    reply = link(closed_sqs, expires=60, minutes_off=-2)
    xml_refusal(parse_xml(reply), reply).assert_is(kinds.BAD_SIGNATURE)
    assert link(closed_sqs, expires=604_800, minutes_off=-60 * 24 * 6).status == 200
    for seconds in (0, -1, 604_801):
        assert link(closed_sqs, expires=seconds).status in (400, 403)


@covers("10.1.skew")
@pytest.mark.parametrize("minutes", [-14.5, 14.5])
def test_a_clock_may_be_off_by_a_quarter_of_an_hour(closed_sqs: Client, minutes: float) -> None:
    as_signed_by(closed_sqs, signed(OWNER, minutes_off=minutes)).call("ListQueues")


@covers("10.1.region")
def test_the_scope_picks_the_region(closed_sqs: Client) -> None:
    client = as_signed_by(closed_sqs, signed(OWNER, region="eu-west-1"))
    arn = attributes(client, new_queue(client), "QueueArn")["QueueArn"]
    assert arn.startswith("arn:aws:sqs:eu-west-1:000000000000:")


@covers("10.1.anonymous", "10.2.none", "12.no-credentials")
def test_a_nameless_caller_is_admitted_by_a_policy_only(
    closed_sqs: Client, closed_queue: str
) -> None:
    nameless = closed_sqs.anonymous()
    members = {"QueueUrl": closed_queue, "MessageBody": "x"}
    nameless.refused("SendMessage", **members).assert_is(kinds.DENIED)
    statement = {"Effect": "Allow", "Principal": "*", "Action": "SQS:SendMessage", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    set_attributes(closed_sqs, closed_queue, Policy=policy)
    assert nameless.call("SendMessage", **members)["MessageId"]
    nameless.refused("ReceiveMessage", QueueUrl=closed_queue).assert_is(kinds.DENIED)


# --- what is refused ----------------------------------------------------------------------------


@covers("10.2.none", "12.no-credentials", "1.6.access-denied")
@pytest.mark.parametrize("action", ["ListQueues", "CreateQueue"])
def test_without_credentials_access_is_denied(closed_sqs: Client, action: str) -> None:
    members = {"QueueName": "some-name"} if action == "CreateQueue" else {}
    closed_sqs.anonymous().refused(action, **members).assert_is(kinds.DENIED)


@covers("10.2.unknown-key", "1.6.unrecognized-client")
def test_an_unknown_key_is_not_recognized(closed_sqs: Client) -> None:
    client = as_signed_by(closed_sqs, signed(Key("AKIDNOBODY", "x", "")))
    text = "The security token included in the request is invalid."
    assert_refused(client, kinds.UNKNOWN_KEY, text)


@covers("10.2.bad-signature", "1.6.invalid-signature")
@pytest.mark.parametrize("secret", ["wrong", "secret of the owner "])
def test_a_wrong_secret_does_not_match(closed_sqs: Client, secret: str) -> None:
    client = as_signed_by(closed_sqs, signed(Key(OWNER.access, secret, "")))
    assert_refused(client, kinds.BAD_SIGNATURE, SIGNATURE_TEXT)


@covers("10.2.bad-signature")
def test_a_signature_of_another_action_does_not_match(closed_sqs: Client) -> None:
    if not closed_sqs.is_json:
        client = as_signed_by(closed_sqs, for_another_body(signed(OWNER)))
    else:
        target = {"X-Amz-Target": "AmazonSQS.ListQueues"}
        other = with_headers(signed(OWNER), X_Amz_Target="AmazonSQS.CreateQueue")
        client = as_signed_by(closed_sqs, spoilt(other, lambda headers: headers | target))
    assert_refused(client, kinds.BAD_SIGNATURE)


@covers("10.2.skewed", "10.1.skew", "12.skewed-clock")
@pytest.mark.parametrize("minutes", [-16, 16])
def test_a_clock_that_is_far_off_is_refused(closed_sqs: Client, minutes: int) -> None:
    client = as_signed_by(closed_sqs, signed(OWNER, minutes_off=minutes))
    refusal = client.refused("ListQueues")
    refusal.assert_is(kinds.BAD_SIGNATURE)
    assert minutes > 0 or EXPIRED.fullmatch(refusal.text), refusal.text


@covers("10.2.malformed", "1.6.incomplete-signature")
@pytest.mark.parametrize(
    "value",
    [
        "AWS4-HMAC-SHA256",
        "AWS4-HMAC-SHA256 nonsense",
        "AWS4-HMAC-SHA256 Credential=AKIDOWNER",
        "AWS4-HMAC-SHA256 Credential=AKIDOWNER/x, SignedHeaders=host, Signature=0",
    ],
)
def test_a_malformed_authorization_is_incomplete(closed_sqs: Client, value: str) -> None:
    sign = spoilt(signed(OWNER), lambda headers: headers | {"Authorization": value})
    assert_refused(as_signed_by(closed_sqs, sign), kinds.INCOMPLETE)


@covers("10.2.wrong-region", "10.1.region")
def test_a_strict_node_knows_one_region(strict_sqs: Client) -> None:
    client = as_signed_by(strict_sqs, signed(OWNER, region="eu-west-1"))
    text = "Credential should be scoped to a valid region, not 'eu-west-1'. "
    assert_refused(client, kinds.BAD_SIGNATURE, text)


@covers("10.2.denied", "10.2.denied-text")
def test_another_account_is_denied(closed_sqs: Client, closed_queue: str) -> None:
    stranger = as_signed_by(closed_sqs, signed(STRANGER))
    assert name_of(new_queue(stranger))
    refusal = stranger.refused("PurgeQueue", QueueUrl=closed_queue)
    refusal.assert_is(kinds.DENIED, f"Access to the resource {closed_queue} is denied.")


@covers("10.2.both-forms")
def test_two_signatures_at_once_are_refused(closed_sqs: Client) -> None:
    header, query = signed(OWNER), presigned(OWNER)

    def both(
        method: str, url: str, headers: dict[str, str], body: bytes
    ) -> tuple[str, dict[str, str]]:
        # Without the body, which botocore would fold into the link.
        url, headers = query(method, url, headers, b"")
        return header(method, url, headers, body)

    text = (
        "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header."
    )
    assert_refused(as_signed_by(closed_sqs, both), kinds.BAD_SIGNATURE, text)


@covers("10.2.before-parsing", "2.0.authentication-first")
@pytest.mark.parametrize(
    ("sign", "kind"),
    [(None, kinds.DENIED), (signed(Key("AKIDNOBODY", "x", "")), kinds.UNKNOWN_KEY)],
    ids=["unsigned", "unknown"],
)
def test_who_calls_is_settled_before_what_is_asked(
    closed_sqs: Client, sign: Signer | None, kind: kinds.Kind
) -> None:
    client = closed_sqs.anonymous() if sign is None else as_signed_by(closed_sqs, sign)
    client.refused("Frobnicate").assert_is(kind)
    if client.is_json:
        headers = {"Content-Type": JSON_TYPE, "X-Amz-Target": "AmazonSQS.CreateQueue"}
        reply = client.exchange("POST", "/", headers, b"no JSON")
        json_refusal(reply).assert_is(kind)
