"""Sums over sampled stacks, from stacks made by hand."""

import sys

from bench import profile_node
from bench.profile_node import label_function, label_line
from bench.sampled_node import stack_of
from bench.server_process import ROOT

LOOP = ("/x/site-packages/uvloop/__init__.py", "run", 1)
SEND = (f"{ROOT}/fastnode/queue/send.py", "send", 10)
OTHER_LINE = (f"{ROOT}/fastnode/queue/send.py", "send", 11)
ENCODE = ("/usr/lib/python3.11/json/__init__.py", "dumps", 5)
STACKS = [((ENCODE, SEND, LOOP), 30), ((SEND, LOOP), 20), ((OTHER_LINE, LOOP), 7), ((LOOP,), 3)]


def test_own_time_goes_to_the_innermost_frame() -> None:
    own = profile_node.own_time([*STACKS, ((), 2)], label_line)
    assert own["fastnode/queue/send.py:10  send"] == 20
    assert own["fastnode/queue/send.py:11  send"] == 7
    assert own["(no Python frame)"] == 2
    assert own.total() == 62


def test_inclusive_time_counts_a_function_once_per_stack_and_leaves_out_the_root() -> None:
    recursive = ((SEND, OTHER_LINE, LOOP), 100)
    inclusive = profile_node.inclusive_time([*STACKS, recursive], label_function)
    assert inclusive["fastnode/queue/send.py  send"] == 157
    assert "uvloop/__init__.py  run" not in inclusive


def test_paths_lose_the_directories_of_projects_and_libraries() -> None:
    library = f"/opt/lib/python{sys.version_info[0]}.{sys.version_info[1]}"
    assert profile_node.shorten(f"{library}/json/encoder.py") == "json/encoder.py"
    assert profile_node.shorten(f"{library}/site-packages/uvloop/a.py") == "uvloop/a.py"
    assert profile_node.shorten("<frozen runpy>") == "<frozen runpy>"


def test_a_stack_lists_frames_from_the_innermost_outwards() -> None:
    stack = stack_of(sys._getframe())
    assert stack[0][1] == test_a_stack_lists_frames_from_the_innermost_outwards.__qualname__
    assert len(stack) > 1
