"""The directory of one broker's sockets: created at each start, removed at its end.

All children inherit a locked descriptor, so a locked directory is in use. The next start removes directories that
killed brokers left, as their locks are free. A file in it says whose it is: it names the first log directory, and the
supervisor alone has a record lock on it.
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
    """Why the directory can't be created; the message is one line for the person who starts the broker."""


class RunningBroker(NamedTuple):
    """`pid` is that of its supervisor, `log_dir` the first of its log directories."""

    pid: int
    log_dir: Path


class RuntimeDirectory:
    """A fresh directory (0700) under `base`, which is created if need be. Raises `RuntimeDirectoryUnusable`."""

    def __init__(self, base: Path, log_dir: Path) -> None:
        try:
            check_runtime_path(base / (PREFIX + "x" * 8))
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
            _remove_leftovers(base)
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
            self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            # Another start may look just now whether it is locked. While it is empty it is removed by nobody.
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            self._broker = _named(self.path / BROKER, log_dir)
        except RuntimePathTooLong as too_long:
            raise RuntimeDirectoryUnusable(str(too_long)) from too_long
        except OSError as error:
            raise RuntimeDirectoryUnusable(
                f"no directory for sockets can be made in {base} ({error.strerror}); set kafkad.runtime.dir"
            ) from error

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._broker)
        os.close(self._lock)


def running_brokers(base: Path) -> list[RunningBroker]:
    """The brokers whose runtime directories are under `base`, as far as this user may see them."""
    found = []
    for path in sorted(base.glob(PREFIX + "????????")):
        try:
            with (path / BROKER).open("rb") as file:
                pid, log_dir = holder_pid(file.fileno()), os.fsdecode(file.read())
        except OSError:
            # It is another user's, or was removed meanwhile.
            continue
        if pid is not None:
            found.append(RunningBroker(pid, Path(log_dir)))
    return found


def _named(path: Path, log_dir: Path) -> int:
    """A descriptor that holds the new file. The lock is this process's: children don't inherit it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.write(descriptor, os.fsencode(log_dir.resolve()))
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def _remove_leftovers(base: Path) -> None:
    for path in base.glob(PREFIX + "????????"):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            # It is another user's, or was removed meanwhile.
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
    """Whether it holds only what a broker has there: another program's directory may have such a name, too."""
    with os.scandir(path) as entries:
        names = list(entries)
    others = [entry for entry in names if entry.name != BROKER or not entry.is_file(follow_symlinks=False)]
    return bool(names) and not any(entry.is_file() or entry.is_dir() for entry in others)
