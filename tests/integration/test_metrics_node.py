"""`/metrics` of real nodes, by a strict reader: everything explained, nothing missing."""

import urllib.request
from pathlib import Path

import pytest

from fastnode.http.metric_families import BY_NAME
from tests.metrics_text import Family, read_metrics
from tests.nodes import Node, boto3_client

# Only with others, with workers, or with a certificate (`test_tls_listener.py`).
OF_CLUSTERS = {"fastnode_raft_peer_lag_entries"}
OF_TLS = {"fastnode_certificate_expiry_timestamp_seconds"}
OF_WORKERS = {name for name in BY_NAME if "handed_over" in name or "siblings" in name}


def scraped(node: Node) -> dict[str, Family]:
    with urllib.request.urlopen(f"{node.admin_url}/metrics", timeout=60) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return read_metrics(answer.read().decode())


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_node_tells_everything_that_the_table_promises(tmp_path: Path, workers: str) -> None:
    with Node(tmp_path / "node", "--workers", workers) as node:
        client = boto3_client(node.sqs_url)
        url = client.create_queue(QueueName="orders")["QueueUrl"]
        for number in range(5):
            client.send_message(QueueUrl=url, MessageBody=str(number))
        with pytest.raises(client.exceptions.QueueDoesNotExist):
            client.get_queue_url(QueueName="none")
        families = scraped(node)
        absent = OF_CLUSTERS | OF_TLS | (OF_WORKERS if workers == "1" else set())
        assert families.keys() == BY_NAME.keys() - absent
        assert all(family.kind == BY_NAME[name].kind for name, family in families.items())
        requests = {
            (sample.labels["action"], sample.labels["outcome"]): sample.value
            for sample in families["fastnode_requests_total"].samples
        }
        assert requests["SendMessage", "ok"] == 5
        assert requests["GetQueueUrl", "refused"] == 1
        (visible,) = (
            sample.value
            for sample in families["fastnode_queue_messages"].samples
            if sample.labels["queue"] == "orders" and sample.labels["state"] == "visible"
        )
        assert visible == 5
        syncs = families["fastnode_log_sync_seconds"].samples[-1]
        assert syncs.value >= 5
