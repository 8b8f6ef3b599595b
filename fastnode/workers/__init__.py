"""A node of several processes: one supervisor, and workers that share its groups.

A worker is a process with one event loop, its own log and the groups that are its own. To all other
groups it is what a node is to groups that another node leads: it has their queues' metadata (a
mirror) and takes calls to the sibling that leads them. So handlers know nothing of workers.

The supervisor holds the data directory, starts workers, starts those again that end, and serves no
request. Not here: nodes of one process, which is what `node.py` and `serve.py` are, and nodes with
other members, which have one worker.
"""
