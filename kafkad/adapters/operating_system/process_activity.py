"""What is a process's main thread doing, as the kernel sees it? (proc(5), /proc/pid/task/tid/stat)"""

from typing import NamedTuple

_STATE, _USER_TICKS, _SYSTEM_TICKS = 0, 11, 12
"""Fields behind the name: proc(5) counts from 1 and has two before them."""


class Activity(NamedTuple):
    """CPU time so far, and whether the thread would go on if the machine let it: it has a CPU or waits for one, or is
    in an uninterruptible wait, usually for a disk.
    """

    cpu_ticks: int
    wants_on: bool


def activity(pid: int) -> Activity | None:
    """None when the process is gone, or may not be seen."""
    try:
        with open(f"/proc/{pid}/task/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The name in parentheses may hold spaces and parentheses.
    fields = text[text.rindex(b")") + 1 :].split()
    ticks = int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])
    return Activity(cpu_ticks=ticks, wants_on=fields[_STATE] in (b"R", b"D"))
