"""fastnode: a durable message queue that speaks Amazon SQS.

Imports go down only: `http → queue → store → raft → native`; `node.py` alone knows every layer.
This file holds the version and little else: every import of any part of the package pays for it.
"""

import os
from typing import Final

if os.environ.get("FASTNODE_PURE") == "1":
    from fastnode._pure import prefer_sources

    prefer_sources()

__version__: Final = "0.1.0"
