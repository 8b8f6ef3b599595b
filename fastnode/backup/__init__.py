"""Backups on disk: what one consists of, how its directory is written and read, and how a node is
made of it. Nothing here talks to a node; `cli/backup.py` fetches, `cluster/backups.py` serves.

Invariants: a directory holds one complete backup at every moment after its first, whatever ends the
process that writes another; a file is named by the checksum of its content, so it is right or it is
damaged, never another version; a node that is made of a backup belongs to a new cluster.
"""
