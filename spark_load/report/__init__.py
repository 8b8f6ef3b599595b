"""The report on one or two replays: numbers, a page with plots, a text.

`aggregates.py` reduces a history in Spark to a value of bounded size, `runs.py`. Everything else is
pure and draws from that: `summary.py` the text, `figures.py` the plots (on `chart.py`, `scale.py`),
`page.py` the page. Whether a history is right is not said here: `verify` knows.
"""
