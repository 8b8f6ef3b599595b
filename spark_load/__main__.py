"""`python -m spark_load`: the program; `cli.py` has it."""

import sys

from spark_load.cli import main

if __name__ == "__main__":
    sys.exit(main())
