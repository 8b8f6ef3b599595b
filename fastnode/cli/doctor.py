"""`fastnode doctor`: looks at this machine and at the configuration as `fastnode run` would, and
says what to do. It changes nothing and leaves nothing behind.

The checks are in `doctor_checks.py`; each returns a verdict and never raises what an operator can
put right.
"""

import os
import sys
from collections.abc import Sequence
from typing import Final

from fastnode.cli.actions import Parser
from fastnode.cli.doctor_checks import CHECKS, Finding, Verdict
from fastnode.cli.flags import build_parser, texts_of
from fastnode.cli.terminal import as_json
from fastnode.errors import UsageError
from fastnode.settings import Settings, load_settings

EXIT_FOUND: Final = 1
_COLOURS: Final = {Verdict.OK: 32, Verdict.WARN: 33, Verdict.FAIL: 31}


def doctor_parser() -> Parser:
    parser = build_parser("doctor")
    parser.description = (
        "Check this machine and the configuration, given as to 'fastnode run'. "
        "Exit code 0 if nothing keeps a node from running well, 1 if something does."
    )
    parser.add_argument("--json", action="store_true", help="as JSON, for scripts")
    return parser


def doctor(arguments: Sequence[str]) -> int:
    """0 unless a check has failed; a warning is no failure."""
    given = doctor_parser().parse(arguments)
    is_json = given.json
    del given.json
    findings = examine(*texts_of(given))
    if is_json:
        rows = [
            {"check": f.check, "verdict": f.verdict, "seen": f.seen, "do": f.advice}
            for f in findings
        ]
        sys.stdout.write(as_json(rows))
    else:
        sys.stdout.write("".join(describe(f, is_coloured=sys.stdout.isatty()) for f in findings))
    return EXIT_FOUND if any(f.verdict is Verdict.FAIL for f in findings) else 0


def examine(flags: dict[str, str], config: str | None) -> list[Finding]:
    try:
        settings = load_settings(flags, os.environ, config=config)
    except UsageError as error:
        # The machine is looked at all the same, as if nothing were configured.
        settings, first = Settings(), Finding("configuration", Verdict.FAIL, str(error))
    else:
        source = f"{config or os.environ.get('FASTNODE_CONFIG') or 'no file'}"
        first = Finding("configuration", Verdict.OK, f"{source}, {len(settings.explicit)} set")
    return [first, *(finding for check in CHECKS for finding in check(settings))]


def describe(finding: Finding, *, is_coloured: bool) -> str:
    word = f"{finding.verdict.value:<5}"
    if is_coloured:
        word = f"\x1b[{_COLOURS[finding.verdict]}m{word}\x1b[0m"
    advice = f"\n      -> {finding.advice}" if finding.advice else ""
    return f"{word} {finding.check}: {finding.seen}{advice}\n"
