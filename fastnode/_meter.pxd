# Nothing of the meter is called from other C code: it has a Python surface only.
