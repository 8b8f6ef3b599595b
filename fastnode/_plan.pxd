# Nothing of planning is called from other C code: its one function has a Python surface only.
