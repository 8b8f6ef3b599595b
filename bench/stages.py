"""Which stage of a request a stack belongs to, and what each stage costs; pure.

A stack is what `spy` records: frames from the outermost inwards, Python, Cython and native ones
joined, each as `function (file)`. `RULES` is the only place that knows where the code of a stage
lives: a frame that no rule names, such as the interpreter's own, belongs to whoever called it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from operator import itemgetter
from typing import Final

import msgspec

Stack = tuple[str, ...]

KERNEL: Final = "kernel and event loop"
HEAD: Final = "HTTP head"
SIGNATURE: Final = "signature"
PLAN: Final = "decode and plan"
COMMIT: Final = "commit"
APPLY: Final = "apply"
ANSWER: Final = "answer"
LINKS: Final = "between nodes"
OTHER: Final = "other"
STAGES: Final = (KERNEL, HEAD, SIGNATURE, PLAN, COMMIT, APPLY, ANSWER, LINKS, OTHER)

# The innermost frame of a thread that is in the kernel.
SYSTEM_CALL: Final = re.compile(
    r"(syscall|epoll_\w*wait|epoll_ctl|p?read(v|64)?|p?write(v|64)?|writev|send\w*|recv\w*|accept4?"
    r"|f(data)?sync|sync_file_range|futex\w*|close|sched_yield|sendfile|eventfd_\w+)"
    r" \(lib(c|pthread)\b"
)

UNSEEN_SYSTEM_CALL: Final = "syscall (libc)"

# Asked in this order of each frame, from the innermost outwards.
RULES: Final = tuple(
    (re.compile(pattern), stage)
    for pattern, stage in (
        (r"\((loop|uv\w*|core|linux|stream|poll|async|timer|tcp|unix)\.(c|h)\)", KERNEL),
        (r"\((uvloop|asyncio)/", KERNEL),
        (r"^(Connection\.(on_answer|_?write|_finish)|_\w*Pending\.|Exchange\.|fill_\w+)", ANSWER),
        (r"^(write|reply) \(fastnode/http/lane\.py", ANSWER),
        (r"\bwhole_response|\(fastnode/http/(response|xml_answer)\.py", ANSWER),
        (r"^RequestIds\b|^show_deliveries\b|^_?answer\w* \(fastnode/queue/", ANSWER),
        (r"^\w*Codec\.(render|encode|answer)\w* \(fastnode/http/", ANSWER),
        (r"\(fastnode/(_http(_ref)?\.|http/(connection|http1|chunked|server)\.py)", HEAD),
        (r"^_verifier\b|\(fastnode/(_sigv4|_sha256|http/(identity|sigv4|credentials))", SIGNATURE),
        (r"\(fastnode/(peers|cluster)/", LINKS),
        (r"\(fastnode/_(entry|occ|landed|filed|held)", APPLY),
        (r"^(Group\.(apply|_finish|commit|look_ahead|_prepare)|Driver\.apply)", APPLY),
        (r"\(fastnode/store/(apply|judge|sums|heads|engine)\.py|\(rocksdict", APPLY),
        (r"^\w+\.added\w* \(fastnode/queue/", APPLY),
        (r"\(fastnode/store/(txn|keyspace|records)\.py", PLAN),
        (r"\(fastnode/(store|raft)/|\(fastnode/(_raftlog|_meter|clock|alarm)", COMMIT),
        (r"\bencode_(transaction|entry)\b", COMMIT),
        (r"\(fastnode/_(plan|plain|reads|send|md5|deliver|fifo|keys|core|query)", PLAN),
        (r"\(fastnode/(queue/|http/|flow)", PLAN),
        (r"\(fastnode/", OTHER),
    )
)
# Threads that run no Python, by the beginning of their name.
THREADS: Final = {"raft-log": COMMIT, "rocksdb": APPLY}


class Sampled(msgspec.Struct, frozen=True):
    """How often a stack was seen in a thread, which is the kernel's number of it."""

    thread: int
    stack: Stack
    count: int


class Thread(msgspec.Struct, frozen=True):
    """CPU seconds of one thread."""

    number: int
    name: str
    user: float
    system: float


class Row(msgspec.Struct, frozen=True):
    """CPU microseconds per unit of work: of threads that run Python, and of the others."""

    stage: str
    loop_us: float
    threads_us: float

    @property
    def all_us(self) -> float:
        """Both."""
        return self.loop_us + self.threads_us


def stage_of(stack: Sequence[str]) -> str:
    """The stage of the innermost frame that has one."""
    if stack and SYSTEM_CALL.match(stack[-1]):
        return KERNEL
    return next((stage for frame in reversed(stack) if (stage := stage_of_frame(frame))), OTHER)


def stage_of_frame(frame: str) -> str | None:
    """The stage of the code in this frame alone."""
    return next((stage for pattern, stage in RULES if pattern.search(frame)), None)


def weigh(samples: Iterable[Sampled], threads: Iterable[Thread]) -> dict[Stack, float]:
    """CPU seconds by stack, below the name of the thread. The sum is that of the threads.

    A sampler sees a thread that waits for a core as if it ran. So the counts only divide what the
    kernel says each thread used, in user mode and in system calls.
    """
    counts: dict[tuple[int, bool], Counter[Stack]] = {}
    for one in samples:
        is_system = bool(one.stack and SYSTEM_CALL.match(one.stack[-1]))
        counts.setdefault((one.thread, is_system), Counter())[one.stack] += one.count
    weights: defaultdict[Stack, float] = defaultdict(float)
    for thread in threads:
        has_stacks = (thread.number, False) in counts or (thread.number, True) in counts
        for is_system, seconds in ((False, thread.user), (True, thread.system)):
            # Too short to be seen: the whole of it is the kernel's, or the thread's own.
            alone = Counter({(UNSEEN_SYSTEM_CALL,) if is_system and has_stacks else (): 1})
            seen = counts.get((thread.number, is_system), alone)
            for stack, count in seen.items():
                weights[(thread.name, *stack)] += seconds * count / seen.total()
    return dict(weights)


def rows(weights: Mapping[Stack, float]) -> list[Row]:
    """Every stage, in the order of a request; weights are microseconds."""
    loop: defaultdict[str, float] = defaultdict(float)
    threads: defaultdict[str, float] = defaultdict(float)
    for stack, microseconds in weights.items():
        if len(stack) > 1:
            loop[stage_of(stack[1:])] += microseconds
        else:
            threads[stage_of_thread(stack[0])] += microseconds
    return [Row(stage, loop[stage], threads[stage]) for stage in STAGES]


def stage_of_thread(name: str) -> str:
    """The stage of a thread that runs no Python."""
    return next((stage for start, stage in THREADS.items() if name.startswith(start)), OTHER)


def heaviest(weights: Mapping[Stack, float], stage: str, count: int) -> list[tuple[str, float]]:
    """The frames that brought most to a stage."""
    found: defaultdict[str, float] = defaultdict(float)
    for stack, weight in weights.items():
        if len(stack) > 1 and stage_of(stack[1:]) == stage:
            named = (frame for frame in reversed(stack) if stage_of_frame(frame) == stage)
            found[next(named, stack[-1])] += weight
    return sorted(found.items(), key=itemgetter(1), reverse=True)[:count]


def without_common_start(weights: Mapping[Stack, float]) -> dict[Stack, float]:
    """Below the name of a thread only the last of the frames that all of its stacks begin with."""
    shortened: dict[Stack, float] = {}
    for name in {stack[0] for stack in weights}:
        mine = {stack: weight for stack, weight in weights.items() if stack[0] == name}
        # A system call that nobody saw from inside stands below its thread alone.
        long = [stack for stack in mine if len(stack) > 2]
        columns = zip(*long, strict=False)
        common = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))
        for stack, weight in mine.items():
            kept = (name, *stack[max(1, common - 1) :]) if len(stack) > 2 else stack
            shortened[kept] = shortened.get(kept, 0.0) + weight
    return shortened
