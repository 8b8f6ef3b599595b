# Nothing of plain receives and deletes is called from other C code: they have a Python surface only.
