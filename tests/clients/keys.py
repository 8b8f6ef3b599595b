"""The key pair that real clients sign with, what they are told by the environment, and the file
that makes a node verify it.
"""

import json
import os
from pathlib import Path
from typing import Final

from tests.nodes import REGION

ACCESS_KEY: Final = "clientkey"
SECRET_KEY: Final = "not/a+real=secret"


def credentials_file(folder: Path) -> Path:
    entry = {"access_key_id": ACCESS_KEY, "secret_access_key": SECRET_KEY}
    path = folder / "credentials.json"
    path.write_text(json.dumps({"credentials": [entry]}))
    path.chmod(0o600)
    return path


def client_environment() -> dict[str, str]:
    """What an application is given instead of an AWS account; nothing of the person's own. A client
    that overlooks its endpoint meets a proxy that is not there, not the world.
    """
    return {
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "NO_PROXY": "127.0.0.1",
    }
