"""Finds the process that listens on a TCP port, for the error text of a broker that can't bind the port.

The data is from /proc, which may show only the user of another user's process, and nothing in a container.
"""

import os
import pwd
from pathlib import Path

_LISTENING = "0A"
_TABLES = ("tcp", "tcp6")
_LONGEST_TITLE = 60


def describe_holder(port: int, proc: Path = Path("/proc")) -> str | None:
    """ "kcat (process 4711)", "a process of user kafka", or None if no process is visible."""
    listeners = _listening_sockets(port, proc)
    if not listeners:
        return None
    for pid in sorted(int(entry.name) for entry in proc.iterdir() if entry.name.isdigit()):
        if _open_sockets(proc / str(pid)).intersection(listeners):
            return f"{_title(proc / str(pid))} (process {pid})"
    return f"a process of user {_user_name(next(iter(listeners.values())))}"


def _listening_sockets(port: int, proc: Path) -> dict[str, int]:
    """The user id by inode of the sockets that listen on the port, on any address."""
    found: dict[str, int] = {}
    for table in _TABLES:
        try:
            rows = (proc / "net" / table).read_text().splitlines()[1:]
        except FileNotFoundError:
            continue
        for row in rows:
            fields = row.split()
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                found[fields[9]] = int(fields[7])
    return found


def _open_sockets(process: Path) -> set[str]:
    sockets = set()
    try:
        for descriptor in (process / "fd").iterdir():
            target = os.readlink(descriptor)
            if target.startswith("socket:["):
                sockets.add(target[8:-1])
    except OSError:
        # The process has ended, or belongs to another user.
        return sockets
    return sockets


def _title(process: Path) -> str:
    try:
        words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
        comm = (process / "comm").read_text().strip()
    except OSError:
        return "an ended process"
    title = " ".join(word for word in words if word) or comm
    return title if len(title) <= _LONGEST_TITLE else f"{title[: _LONGEST_TITLE - 1]}…"


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
