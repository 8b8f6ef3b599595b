"""How a call for another node ends when it does not end well."""

import logging

import pytest

from fastnode.cluster.call_codec import decode_error
from fastnode.cluster.outcome import encode_failure
from fastnode.errors import NotLed
from fastnode.queue.errors import SqsError, queue_does_not_exist


def test_a_bug_is_told_here_and_is_an_internal_failure_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR, "fastnode.cluster"):
        error = decode_error(*encode_failure(AssertionError("a secret"), "SendMessage"))
    assert isinstance(error, SqsError) and error.row.shape == "InternalFailure"
    assert "a secret" not in error.message
    assert "SendMessage" in caplog.text and "a secret" in caplog.text


def test_what_is_no_bug_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    for error in (NotLed("elsewhere"), queue_does_not_exist()):
        assert type(decode_error(*encode_failure(error, "SendMessage"))) is type(error)
    assert caplog.text == ""
