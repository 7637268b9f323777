"""Checks that only root and the broker's user may write the files of plugins.

Plugins run with all rights of the broker, so files of the plugins folder with other writers are rejected, as in sudo
and sshd. `load` checks this before it imports plugins.
"""

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from kafkad.plugin_discovery import PluginFailed


def check_permissions(directory: str) -> None:
    """Check the folder, its content, and the folders above it. Raises PluginFailed with the path."""
    folder = Path(directory).resolve()
    for path in (*folder.parents, folder, *_below(folder)):
        try:
            status = path.stat()
        except OSError:
            # A broken link, or no permission: then it can't be imported either.
            continue
        problem = _problem_of_parent(status) if path in folder.parents else _problem_of(status)
        if problem is not None:
            raise PluginFailed("folder", directory, f"{path} {problem}")


def _below(folder: Path) -> Iterator[Path]:
    """All files and folders below, including __pycache__, whose bytecode Python executes instead of the source.

    Entries of the folder that begin with a dot are never imported.
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
        return f"belongs to user {status.st_uid}, expected {owners}, because plugins run with the broker's rights"
    if status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and not _is_alone_in_group(status)):
        return f"may be written by others (mode {stat.S_IMODE(status.st_mode):o}): chmod go-w"
    return None


def _is_alone_in_group(status: os.stat_result) -> bool:
    """Whether the group is the owner's private group, as with the default umask 002 of many systems."""
    try:
        owner, group = pwd.getpwuid(status.st_uid), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    return owner.pw_gid == group.gr_gid and owner.pw_name == group.gr_name and set(group.gr_mem) <= {owner.pw_name}


def _problem_of_parent(status: os.stat_result) -> str | None:
    """A user with write permission above the folder could replace it."""
    if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        mode = f"{stat.S_IMODE(status.st_mode):o}"
        return f"may be written by everybody (mode {mode}), so any user could replace the plugins folder"
    return None
