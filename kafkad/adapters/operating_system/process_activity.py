"""The activity of a process's main thread (proc(5), /proc/pid/task/tid/stat)."""

from typing import NamedTuple

_STATE, _USER_TICKS, _SYSTEM_TICKS = 0, 11, 12
"""Indexes of the fields after the name, which are fields 3 and later of proc(5)."""


class Activity(NamedTuple):
    """The CPU time, and whether the thread is active: it runs, is runnable, or is in an uninterruptible wait, usually
    for a disk.
    """

    cpu_ticks: int
    is_active: bool


def activity(pid: int) -> Activity | None:
    """None if the process has ended, or is not visible."""
    try:
        with open(f"/proc/{pid}/task/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The name in parentheses may contain spaces and parentheses.
    fields = text[text.rindex(b")") + 1 :].split()
    ticks = int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])
    return Activity(cpu_ticks=ticks, is_active=fields[_STATE] in (b"R", b"D"))
