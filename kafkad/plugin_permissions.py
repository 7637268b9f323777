"""Who may write what is executed as a plugin? Only root and the user that runs it.

A plugin has all rights of the broker, so a file of the plugins folder that somebody else may write is refused, as sudo
and sshd refuse theirs. `load` asks before it imports anything.
"""

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from kafkad.plugin_discovery import PluginFailed


def check_permissions(directory: str) -> None:
    """Of the folder, of everything in it, and of the folders above it; raises PluginFailed with the path."""
    folder = Path(directory).resolve()
    for path in (*folder.parents, folder, *_below(folder)):
        try:
            status = path.stat()
        except OSError:
            # A link to nothing, or what this user can't reach: it can't be imported either.
            continue
        problem = _problem_of_parent(status) if path in folder.parents else _problem_of(status)
        if problem is not None:
            raise PluginFailed("folder", directory, f"{path} {problem}")


def _below(folder: Path) -> Iterator[Path]:
    """Bytecode in __pycache__ too, which Python executes instead of the source. What begins with a dot in the folder is
    never imported.
    """
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        yield entry
        for at, folders, files in os.walk(entry.resolve()):
            yield from (Path(at, name) for name in (*folders, *files))


def _problem_of(status: os.stat_result) -> str | None:
    own = os.geteuid()
    if status.st_uid not in (0, own):
        owners = "root" if own == 0 else f"root or the user of the broker ({own})"
        return f"belongs to user {status.st_uid}, expected {owners}: it would be executed with the broker's rights"
    if status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and not _is_alone_in_group(status)):
        return f"may be written by others (mode {stat.S_IMODE(status.st_mode):o}): chmod go-w"
    return None


def _is_alone_in_group(status: os.stat_result) -> bool:
    """Whether the group is the owner's private one, as the default of many systems is (umask 002)."""
    try:
        owner, group = pwd.getpwuid(status.st_uid), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    return owner.pw_gid == group.gr_gid and owner.pw_name == group.gr_name and set(group.gr_mem) <= {owner.pw_name}


def _problem_of_parent(status: os.stat_result) -> str | None:
    """Whoever may rename the folder can put another one in its place."""
    if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        return f"may be written by everybody (mode {stat.S_IMODE(status.st_mode):o}), and the folder is below it"
    return None
