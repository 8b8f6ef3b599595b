"""Section 1.5: what names a queue; section 2.1: what a queue may be called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.queue import queue_url
from fastnode.queue.errors import SqsError

ACCOUNT = "000000000000"


@pytest.mark.parametrize(
    "url",
    [
        f"https://sqs.eu-west-1.amazonaws.com/{ACCOUNT}/orders",
        f"https://eu-west-1.queue.amazonaws.com/{ACCOUNT}/orders",
        f"https://queue.amazonaws.com/{ACCOUNT}/orders",
        f"http://127.0.0.1:9324/{ACCOUNT}/orders",
        f"http://localhost:4566/queue/eu-west-1/{ACCOUNT}/orders",
        f"http://anything/{ACCOUNT}/orders/",
        f"/{ACCOUNT}/orders",
    ],
)
def test_every_form_of_url_names_the_same_queue(url: str) -> None:
    assert queue_url.resolve(url) == (ACCOUNT, "orders")


@pytest.mark.parametrize("name", ["orders", "a", "A-b_9", "x" * 80, "y" * 75 + ".fifo"])
def test_bare_name_means_the_callers_account(name: str) -> None:
    assert queue_url.resolve(name) == (None, name)


@pytest.mark.parametrize(
    "url",
    [
        None,
        "",
        "/",
        "http://whatever-incorrect",
        "http://host/orders",
        "http://host/not-an-account/orders",
        f"http://host/{ACCOUNT}/",
        f"http://host/{ACCOUNT}/or ders",
        f"http://host/{ACCOUNT}/orders?x=1",
        f"http://host/{ACCOUNT}/{'x' * 81}",
        f"http://host/{ACCOUNT}/{'x' * 76}.fifo",
        f"http://host/{ACCOUNT}/orders\n",
        "x" * 81,
        "a.b",
        "\u0661" * 12 + "/orders",
        "/\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668\u0669\u0660\u0661\u0662/orders",
    ],
)
def test_what_names_no_queue_does_not_exist(url: str | None) -> None:
    with pytest.raises(SqsError) as refusal:
        queue_url.resolve(url)
    assert refusal.value.row.shape == "QueueDoesNotExist"


@given(st.text(max_size=200))
def test_any_text_is_resolved_to_well_formed_parts_or_refused(url: str) -> None:
    try:
        account, name = queue_url.resolve(url)
    except SqsError as refusal:
        assert refusal.row.shape == "QueueDoesNotExist"
    else:
        assert account is None or queue_url.is_account(account)
        assert queue_url.is_queue_name(name)


NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,75}(\.fifo)?", fullmatch=True)


@given(NAMES)
def test_a_built_url_resolves_to_what_it_was_built_from(name: str) -> None:
    url = queue_url.build_url("http://127.0.0.1:9324", ACCOUNT, name)
    assert queue_url.resolve(url) == (ACCOUNT, name)


@pytest.mark.parametrize(
    ("region", "arn"),
    [
        ("eu-west-1", f"arn:aws:sqs:eu-west-1:{ACCOUNT}:q"),
        ("cn-north-1", f"arn:aws-cn:sqs:cn-north-1:{ACCOUNT}:q"),
        ("us-gov-west-1", f"arn:aws-us-gov:sqs:us-gov-west-1:{ACCOUNT}:q"),
    ],
)
def test_arn_has_the_partition_of_the_region(region: str, arn: str) -> None:
    assert queue_url.build_arn(region, ACCOUNT, "q") == arn


STANDARD = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
FIFO = (
    "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, "
    "must end with .fifo suffix and be 1 to 80 in length"
)


@pytest.mark.parametrize(
    ("name", "is_fifo", "text"),
    [
        ("orders!", False, STANDARD),
        ("x" * 81, False, STANDARD),
        ("orders.fifo", False, STANDARD),
        ("orders\n", False, STANDARD),
        ("orders", True, FIFO),
        (".fifo", True, FIFO),
        ("x" * 76 + ".fifo", True, FIFO),
    ],
)
def test_new_name_is_refused(name: str, is_fifo: bool, text: str) -> None:
    with pytest.raises(SqsError) as refusal:
        queue_url.check_new_name(name, is_fifo=is_fifo)
    assert (refusal.value.row.query_code, refusal.value.message) == ("InvalidParameterValue", text)


@pytest.mark.parametrize(
    ("name", "is_fifo"), [("x" * 80, False), ("A-b_9", False), ("x" * 75 + ".fifo", True)]
)
def test_new_name_is_accepted(name: str, is_fifo: bool) -> None:
    queue_url.check_new_name(name, is_fifo=is_fifo)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (None, "Value for parameter QueueName is invalid. Reason: Must specify a queue name."),
        ("", "Queue name cannot be empty"),
    ],
)
def test_name_is_required(name: str | None, text: str) -> None:
    with pytest.raises(SqsError) as refusal:
        queue_url.required_name(name)
    assert refusal.value.message == text
