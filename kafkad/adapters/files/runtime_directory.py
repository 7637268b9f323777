"""The runtime directory of one broker, with its sockets: created at each start, removed at the stop.

All children inherit a locked descriptor, so a locked directory is in use. The next start removes unlocked directories
of killed brokers. The file `broker` in it has the path of the first log directory; the supervisor holds a record lock
on the file.
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from kafkad.adapters.files.record_lock import holder_pid
from kafkad.adapters.links.messaging import RuntimePathTooLong, check_runtime_path

PREFIX = "kafkad-"
BROKER = "broker"


class RuntimeDirectoryUnusable(Exception):
    """The directory can't be created; the message is one line with the reason, for the administrator."""


class RunningBroker(NamedTuple):
    """`pid` is the pid of the supervisor, `log_dir` the first log directory."""

    pid: int
    log_dir: Path


class RuntimeDirectory:
    """A new directory (0700) under `base`, which is created if missing. Raises `RuntimeDirectoryUnusable`."""

    def __init__(self, base: Path, log_dir: Path) -> None:
        try:
            check_runtime_path(base / (PREFIX + "x" * 8))
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
            _remove_leftovers(base)
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
            self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            # Another start may check the lock just now. It does not remove empty directories.
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            self._broker = _create_broker_file(self.path / BROKER, log_dir)
        except RuntimePathTooLong as too_long:
            raise RuntimeDirectoryUnusable(str(too_long)) from too_long
        except OSError as error:
            raise RuntimeDirectoryUnusable(
                f"can't create a directory for sockets in {base} ({error.strerror}); set kafkad.runtime.dir"
            ) from error

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._broker)
        os.close(self._lock)


def running_brokers(base: Path) -> list[RunningBroker]:
    """The brokers with runtime directories under `base` that this user may read."""
    found = []
    for path in sorted(base.glob(PREFIX + "????????")):
        try:
            with (path / BROKER).open("rb") as file:
                pid, log_dir = holder_pid(file.fileno()), os.fsdecode(file.read())
        except OSError:
            # The directory belongs to another user, or was removed meanwhile.
            continue
        if pid is not None:
            found.append(RunningBroker(pid, Path(log_dir)))
    return found


def _create_broker_file(path: Path, log_dir: Path) -> int:
    """Create the file `broker`; returns its descriptor. Children don't inherit the record lock."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.write(descriptor, os.fsencode(log_dir.resolve()))
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def _remove_leftovers(base: Path) -> None:
    for path in base.glob(PREFIX + "????????"):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            # The directory belongs to another user, or was removed meanwhile.
            continue
        try:
            if os.fstat(descriptor).st_uid == os.geteuid() and _is_free(descriptor) and _is_ours(path):
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(descriptor)


def _is_free(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_ours(path: Path) -> bool:
    """Whether the directory has only files of a broker: another program may use the same name."""
    with os.scandir(path) as entries:
        names = list(entries)
    others = [entry for entry in names if entry.name != BROKER or not entry.is_file(follow_symlinks=False)]
    return bool(names) and not any(entry.is_file() or entry.is_dir() for entry in others)
