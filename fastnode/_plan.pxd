# Nothing of planning is called from other C code: its functions have a Python surface only.
