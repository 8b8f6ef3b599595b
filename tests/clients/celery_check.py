"""Celery over kombu's SQS transport: two workers, 200 tasks. A program, not a test; the tasks and
what is demanded of them are those of `tests/integration/test_celery.py`.
"""

import os
import tempfile
from pathlib import Path

from tests.integration.test_celery import run_tasks


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run_tasks(os.environ["AWS_ENDPOINT_URL"], Path(folder))
    for what in ("tasks", "retries", "ETA", "late acknowledgement"):
        print("ok", what, flush=True)


if __name__ == "__main__":
    main()
