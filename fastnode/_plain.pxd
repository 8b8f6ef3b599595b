# Nothing of plain sends is called from other C code: its functions have a Python surface only.
