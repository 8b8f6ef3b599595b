"""fastnode: a durable message queue that speaks Amazon SQS.

Imports go down only: `http → queue → store → raft → native`; `node.py` alone knows every layer.
This file holds the version and nothing else: every import of any part of the package pays for it.
"""

from typing import Final

__version__: Final = "0.1.0"
