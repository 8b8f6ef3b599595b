"""`make clients`: every real client against an open node and against one that verifies signatures.

What a client needs besides its runtime is installed below `build/clients`. A runtime that is not
installed is reported and skipped; a client that does not print every check has failed. A run of all
clients writes its results into `docs/clients.md`; with names as arguments, only the clients whose
names contain one of them run, and nothing is written.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.clients import table
from tests.clients.catalog import BUILD, CLIENTS, Client, Failed, run
from tests.clients.keys import client_environment, credentials_file
from tests.clients.table import Result
from tests.nodes import ROOT, Node

CHECK_SECONDS: Final = 240


def missing_runtime(client: Client) -> str | None:
    return next((name for name in client.runtimes if shutil.which(name) is None), None)


def complaint_about(client: Client, nodes: dict[str, Node], queue: str) -> str | None:
    """None if every check held on every node."""
    try:
        command = client.prepare()
        for kind, node in nodes.items():
            told = {
                "AWS_ENDPOINT_URL": node.sqs_url,
                "CHECK_QUEUE": queue,
                "PYTHONPATH": str(ROOT),
            }
            printed = run(command, CHECK_SECONDS, BUILD, client_environment() | told)
            held = tuple(line[3:] for line in printed.splitlines() if line.startswith("ok "))
            if held != client.checks:
                raise Failed(f"{kind}: of {client.checks} only {held}")
    except Failed as failure:
        return str(failure)
    return None


def result_of(client: Client, nodes: dict[str, Node], queue: str) -> Result:
    missing = missing_runtime(client)
    if missing is not None:
        return Result(client, "skipped", f"{missing} is not installed")
    complaint = complaint_about(client, nodes, queue)
    if complaint is None:
        return Result(client, "passed", ", ".join(client.checks))
    return Result(client, "failed", complaint)


def results_of(clients: list[Client], nodes: dict[str, Node]) -> list[Result]:
    results: list[Result] = []
    for number, client in enumerate(clients):
        result = result_of(client, nodes, f"client-{number}")
        print(f"{client.name} {client.version}: {result.verdict}: {result.reason}", flush=True)
        results.append(result)
    return results


def bugs_of(nodes: dict[str, Node]) -> int:
    bugs = [(kind, node) for kind, node in nodes.items() if "Traceback" in node.stderr_tail()]
    for kind, node in bugs:
        print(f"{kind}: failed: it logged a bug\n{node.stderr_tail()}")
    return len(bugs)


def main(names: list[str]) -> int:
    chosen = [one for one in CLIENTS if any(name in one.name for name in names or [""])]
    BUILD.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        Node(Path(folder) / "open") as open_node,
        Node(
            Path(folder) / "verified", "--credentials", str(credentials_file(Path(folder)))
        ) as verified,
    ):
        nodes = {"open node": open_node, "node that verifies signatures": verified}
        results = results_of(chosen, nodes)
        bugs = bugs_of(nodes)
    if not names:
        table.write(results)
    verdicts = [result.verdict for result in results]
    print(", ".join(f"{verdicts.count(one)} {one}" for one in ("passed", "failed", "skipped")))
    return 1 if bugs or "failed" in verdicts or not results else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
