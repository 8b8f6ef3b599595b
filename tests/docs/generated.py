"""Pages and parts of pages that are drawn from the code's own tables. `make docs` writes them anew,
`make test` demands that what is committed is what they would be.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from fastnode.queue.operations import OPERATIONS
from tests.conformance.contract import PROTOCOLS, Row, load_rows
from tests.nodes import ROOT
from tests.unit.test_tidy import LEAVES, MAY_IMPORT

COMPATIBILITY: Final = ROOT / "docs" / "compatibility.md"
ARCHITECTURE: Final = ROOT / "docs" / "architecture.md"
BEGIN: Final = "<!-- written by make docs: begin -->\n"
END: Final = "<!-- written by make docs: end -->\n"
LAYERS: Final = ("http", "cluster", "queue", "store", "raft")

SECTIONS: Final[Mapping[str, str]] = {
    "0.2": "Limits",
    "1.1": "Choosing the protocol",
    "1.2": "JSON protocol",
    "1.3": "Query protocol: requests",
    "1.4": "Query protocol: answers",
    "1.5": "Queue URLs",
    "1.6": "Errors",
    "2.0": "All actions",
    "2.1": "Life of a queue",
    "2.2": "Messages: actions",
    "2.3": "Tags and permissions",
    "2.4": "Dead-letter actions",
    "3.1": "Queue attributes",
    "3.2": "Queue attributes: meaning",
    "3.3": "Queue attributes: bad values",
    "3.4": "Policies",
    "4.1": "Bodies",
    "4.2": "Message attributes",
    "4.3": "Digests",
    "4.4": "System attributes",
    "4.5": "Attributes of a receive",
    "5.1": "Timers",
    "5.2": "Order of standard queues",
    "5.3": "Long polls",
    "5.4": "Receipt handles",
    "5.5": "Receive attempts of FIFO queues",
    "6.1": "FIFO: deduplication",
    "6.2": "FIFO: delivery",
    "6.3": "FIFO: other rules",
    "7.1": "Batches: errors of the whole",
    "7.2": "Batches: results of entries",
    "8.1": "Dead letters: configuration",
    "8.2": "Dead letters: what moves when",
    "8.3": "Dead letters: sources",
    "8.4": "Message move tasks",
    "9": "Rules of time",
    "10.1": "Signatures",
    "10.2": "Signatures: refusals",
    "11": "Recent additions of AWS",
    "12": "Where sources disagree: our choice",
}
HEAD: Final = """# SQS compatibility

Written by `make docs` from the rows of `tests/conformance/rows`; do not edit it here. Each row is
one rule of Amazon SQS that a client can observe. `make conformance` runs at least one case for each
row by each protocol it applies to, and fails if one has none; so what says *yes* is tested in every
run.

- *Evidence* says how we know the rule: **recorded** in answers of AWS, **validated** by tests that
  others run against AWS, **documented** by AWS, quoted in the **wild** (bug reports), or
  **unverified**: inferred.
- *elsewhere*: another test of the tree shows it, most of them in virtual time.
- IPV is the error `InvalidParameterValue`.

What AWS has and a node has not: IAM (policies of queues are enforced, [policies.md](policies.md)),
encryption by KMS (the attributes are kept, nothing is encrypted), quotas of throughput, CloudWatch
([metrics.md](metrics.md) instead), triggers of Lambda, subscriptions of SNS, VPC endpoints.
"""


def compatibility_page(rows: Mapping[str, Row]) -> str:
    return "\n".join([HEAD, actions(), totals(rows), *sections(rows)])


def actions() -> str:
    names = ", ".join(f"`{name}`" for name in sorted(OPERATIONS))
    return f"## Actions\n\nAll {len(OPERATIONS)}, by JSON and by Query: {names}.\n"


def totals(rows: Mapping[str, Row]) -> str:
    kept = [row for row in rows.values() if row.status != "later"]
    absent = [row for row in rows.values() if row.status == "later"]
    lines = [
        "## In figures\n",
        f"{len(rows)} rules, {len(kept)} kept, {len(absent)} not:\n",
        *(f"- {row.statement}: {row.reason.lower()}." for row in absent),
    ]
    return "\n".join([*lines, ""])


def sections(rows: Mapping[str, Row]) -> Iterator[str]:
    for section in dict.fromkeys(row.section for row in rows.values()):
        own = [row for row in rows.values() if row.section == section]
        yield (
            f"## {SECTIONS[section]}\n\n| rule | protocol | evidence | kept |\n|---|---|---|---|\n"
            + ("".join(map(line, own)))
        )


def line(row: Row) -> str:
    protocols = "both" if row.protocols == PROTOCOLS else ", ".join(row.protocols)
    kept = {"case": "yes", "elsewhere": "yes, elsewhere", "later": "**no**"}[row.status]
    statement = row.statement.replace("|", "\\|")
    return f"| {statement} | {protocols} | {', '.join(row.evidence)} | {kept} |\n"


def layer_diagram() -> str:
    """Who may import whom, as the tidy test enforces it; the leaves are for all."""
    lines = ["```mermaid", "flowchart TD"]
    for own in (*LAYERS, "peers"):
        lines += [f"    {own} --> {target}" for target in sorted(MAY_IMPORT[own])]
    lines += ["    raft --> native", "    native --> rust[rust_ext: raft-rs, log, fsync]"]
    lines += [f"    leaves[for all: {', '.join(sorted(LEAVES - {'native'}))}]"]
    return "\n".join([*lines, "```", ""])


def with_diagram(page: str) -> str:
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{layer_diagram()}\n{END}{after}"


def pages() -> dict[Path, str]:
    return {
        COMPATIBILITY: compatibility_page(load_rows()),
        ARCHITECTURE: with_diagram(ARCHITECTURE.read_text(encoding="utf-8")),
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
