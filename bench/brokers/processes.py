"""The processes of a broker: the tree below one pid, from /proc. Processes are never found by name alone."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

WITHIN_S = 240.0
"""The timeout for conditions that are expected at once: long enough for a busy or stalled machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process in /proc; `started` (clock ticks since boot) distinguishes reused pids.

    `name` is the name of the process (`worker-0`), `title` its command line.
    """

    pid: int
    parent: int
    state: str
    threads: int
    started: int
    name: str
    title: str


def read_process(pid: int) -> Process | None:
    """The process; None if it does not exist. A zombie exists, in state Z."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        title = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may contain spaces and parentheses: split at the last parenthesis.
    name_end = stat.rindex(b")")
    fields = stat[name_end + 2 :].split()
    return Process(
        pid=pid,
        parent=int(fields[1]),
        state=fields[0].decode(),
        threads=int(fields[17]),
        started=int(fields[19]),
        name=stat[stat.index(b"(") + 1 : name_end].decode(errors="replace"),
        title=title.replace(b"\0", b" ").decode(errors="replace").strip(),
    )


def process_tree(root: int) -> list[Process]:
    """`root` and all its live descendants, parents before children."""
    processes = [read_process(int(name)) for name in os.listdir("/proc") if name.isdigit()]
    children: dict[int, list[Process]] = {}
    for process in processes:
        if process is not None and process.state != "Z":
            children.setdefault(process.parent, []).append(process)
    first = read_process(root)
    tree = [first] if first is not None and first.state != "Z" else []
    for process in tree:  # grows while it is walked
        tree.extend(children.get(process.pid, ()))
    return tree


def is_alive(process: Process) -> bool:
    """Whether the process, and not a later one with the same pid, still runs.

    A killed process is a zombie when its first thread has ended; its last thread closes its files and locks.
    """
    now = read_process(process.pid)
    return now is not None and now.started == process.started and (now.state != "Z" or now.threads > 1)


def kill_all(processes: list[Process]) -> None:
    """Send SIGKILL to all live processes, without a pause."""
    for process in processes:
        if is_alive(process):
            os.kill(process.pid, signal.SIGKILL)


def eventually(condition: Callable[[], object], *, within: float = WITHIN_S, what: str) -> None:
    """Wait until `condition()` is true; fail with `what` after `within` seconds."""
    deadline = time.monotonic() + within
    pause = 0.002
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within} s: {what}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
