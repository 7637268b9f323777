"""The disk under the logs: real files in memory, behind an `os` that stops, tears, fills up and fails when told to.

It can also lose its power, and with it what was not synced.
"""

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path

from typing_extensions import Buffer

from tests.simulation.page_cache import PageCache
from tests.simulation.scheduler import Killed, Scheduler


class Trouble(Enum):
    """What a log directory may suffer from."""

    NONE = "nothing"
    SHORT = "short writes"
    FULL = "no space"
    UNSYNCABLE = "failed syncs"
    BROKEN = "failed writes"


class SimulatedDisk:
    """Stands where a module of the broker says `os`; what it does not know is the real thing."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._paths: dict[int, str] = {}
        self._free: dict[str, int] = {}
        self.troubles: dict[str, Trouble] = {}
        """By log directory."""
        self._cache: PageCache | None = None
        self._is_of_the_dead = False

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def trouble(self, directory: Path, trouble: Trouble, *, free: int = 0) -> None:
        """What a full one has still room for is `free` bytes."""
        self.troubles[str(directory)] = trouble
        self._free[str(directory)] = free

    def heal(self) -> None:
        self.troubles.clear()

    def remember_what_is_synced(self) -> None:
        """From now on, so that it can lose the rest."""
        self._cache = PageCache()

    def end_of_a_life(self, *, close: Callable[[], None]) -> None:
        """`close` runs what a process that was killed would have done on its way out: here nothing comes of it."""
        self._is_of_the_dead = True
        try:
            with suppress(Killed):
                close()
        finally:
            self._is_of_the_dead = False

    def lose_power(self, machine: str = "") -> None:
        """Nobody there has a file open any more: `machine` is the folder of its disks."""
        assert self._cache is not None, "it has not remembered what is synced"
        lost = self._cache.lose(self._scheduler.random, machine)
        self._scheduler.note("disk", f"has lost its power, and {lost} bytes")

    def _trouble_at(self, fd: int) -> tuple[str, Trouble]:
        path = self._paths.get(fd, "")
        for directory, trouble in self.troubles.items():
            if path.startswith(directory):
                return directory, trouble
        return "", Trouble.NONE

    def _name(self, fd: int) -> str:
        return "/".join(self._paths.get(fd, "?").split("/")[-2:])

    def open(self, path: str | Path, flags: int, mode: int = 0o777) -> int:
        self._scheduler.joint("opens a file")
        is_new = bool(flags & os.O_CREAT) and not os.path.exists(path)
        fd = os.open(path, flags, mode)
        self._paths[fd] = str(path)
        if self._cache is not None:
            self._cache.opened(fd, str(path), is_new=is_new)
        return fd

    def close(self, fd: int) -> None:
        self._paths.pop(fd, None)
        if self._cache is not None:
            self._cache.closed(fd)
        os.close(fd)

    def preadv(self, fd: int, buffers: Sequence[bytearray], position: int, _flags: int) -> int:
        """Everything is in memory, whatever else this machine does."""
        return os.preadv(fd, buffers, position)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        return self.pwrite(fd, b"".join(buffers), position)

    def pwrite(self, fd: int, data: Buffer, position: int) -> int:
        scheduler = self._scheduler
        view = memoryview(data)
        if scheduler.is_last_joint():
            torn = scheduler.random.randint(0, len(view))
            self._write(fd, view[:torn], position)
            scheduler.die(f"after {torn} of {len(view)} bytes at {position} of {self._name(fd)}")
        scheduler.joint("writes")
        if self.troubles:
            view = self._what_it_takes(fd, view, position)
        return self._write(fd, view, position)

    def _write(self, fd: int, view: memoryview, position: int) -> int:
        if self._cache is not None:
            self._cache.wrote(fd, position, bytes(view))
        return os.pwrite(fd, view, position)

    def _what_it_takes(self, fd: int, view: memoryview, position: int) -> memoryview:
        random = self._scheduler.random
        directory, trouble = self._trouble_at(fd)
        match trouble:
            case Trouble.SHORT if len(view) > 1:
                return view[: random.randint(1, len(view))]
            case Trouble.FULL:
                growth = max(0, position + len(view) - os.fstat(fd).st_size)
                free = self._free[directory]
                if growth > free and free == 0:
                    self._scheduler.note("disk", f"is full: {self._name(fd)}")
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self._free[directory] -= min(growth, free)
                return view[: len(view) - max(0, growth - free)]
            case Trouble.BROKEN:
                self._scheduler.note("disk", f"fails: {self._name(fd)}")
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        return view

    def ftruncate(self, fd: int, size: int) -> None:
        self._scheduler.joint("truncates")
        os.ftruncate(fd, size)
        if self._cache is not None:
            self._cache.truncated(fd, size)

    def fsync(self, fd: int) -> None:
        """Memory is always in sync; what would be on a disk is noted."""
        self._scheduler.joint("syncs")
        if self._trouble_at(fd)[1] in (Trouble.UNSYNCABLE, Trouble.BROKEN):
            self._scheduler.note("disk", f"fails to sync {self._name(fd)}")
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if self._cache is not None:
            self._cache.synced(fd, self._paths.get(fd, ""))

    def replace(self, old: str, new: str) -> None:
        self._scheduler.joint("replaces a file")
        if self._cache is not None:
            self._cache.look_at(new)
        os.replace(old, new)
        if self._cache is not None:
            self._cache.replaced(new)

    def rename(self, old: str | Path, new: str | Path) -> None:
        self._scheduler.joint("renames")
        if self._cache is not None:
            self._cache.look_at(str(old))
            self._cache.look_at(str(new))
        os.rename(old, new)
        if self._cache is not None:
            self._cache.renamed(str(old), str(new))

    def unlink(self, path: str) -> None:
        if self._is_of_the_dead:
            raise Killed
        self._scheduler.joint("unlinks")
        if self._cache is not None:
            self._cache.look_at(path)
        os.unlink(path)
        if self._cache is not None:
            self._cache.unlinked(path)

    def sendfile(self, out: int, fd: int, offset: int, count: int) -> int:
        scheduler = self._scheduler
        scheduler.joint("sends a file")
        if count > 1 and scheduler.random_source(self.short_chance):
            count = scheduler.random.randint(1, count)
        return os.sendfile(out, fd, offset, count)

    short_chance = 0.0
    """How often the kernel sends less of a file than it was asked to."""
