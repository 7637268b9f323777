"""What of the files is on the disk, and what would be gone if the machine lost its power now?

Of a file that content lasts which was synced, and of what was written since any beginning, the last of it torn. Of a
directory those names last that were synced, or any later state of them.
"""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

_Write = tuple[int, bytes] | int
"""(position, bytes), or the length to which the file was cut."""


class _File:
    """One file under whatever name."""

    def __init__(self, durable: bytes = b"") -> None:
        self.durable = durable
        self.writes: list[_Write] = []

    def content(self, count: int | None = None) -> bytearray:
        """After so many of the writes."""
        content = bytearray(self.durable)
        for write in self.writes[:count]:
            _apply(content, write)
        return content

    def sync(self) -> None:
        self.durable = bytes(self.content())
        self.writes.clear()

    def after_loss(self, random: Random) -> bytes:
        kept = random.randint(0, len(self.writes))
        content = self.content(kept)
        if kept < len(self.writes) and not isinstance(write := self.writes[kept], int):
            position, data = write
            _apply(content, (position, data[: random.randint(0, len(data))]))
        return bytes(content)


def _apply(content: bytearray, write: _Write) -> None:
    if isinstance(write, int):
        del content[write:]
        content.extend(bytes(write - len(content)))
    else:
        position, data = write
        content.extend(bytes(max(0, position - len(content))))
        content[position : position + len(data)] = data


class _Directory:
    """The files in one directory that were opened or replaced here; others are left alone."""

    def __init__(self, inode: int) -> None:
        self.inode = inode
        self.live: dict[str, _File] = {}
        self.states: list[dict[str, _File]] = [{}]
        """Those that may be found after a loss; the first is the one that was synced last."""

    def seen(self, name: str, file: _File) -> None:
        """It has been there before anybody looked."""
        self.live[name] = file
        for state in self.states:
            state[name] = file

    def change(self, act: Callable[[dict[str, _File]], object]) -> None:
        act(self.live)
        self.states.append(dict(self.live))

    def sync(self) -> None:
        self.states = [dict(self.live)]


class PageCache:
    """Told of every operation; `lose` makes the real files what a loss of power leaves."""

    def __init__(self) -> None:
        self._directories: dict[str, _Directory] = {}
        self._files: dict[int, _File] = {}
        """By descriptor."""

    def opened(self, fd: int, path: str, *, is_new: bool) -> None:
        if os.path.isdir(path):
            self._files.pop(fd, None)
            return
        directory, name = self._place(path)
        if is_new:
            directory.change(lambda live: live.update({name: _File()}))
        elif name not in directory.live:
            directory.seen(name, _File(Path(path).read_bytes()))
        self._files[fd] = directory.live[name]

    def look_at(self, path: str) -> None:
        """It is about to get another name, or to go: what it holds may be found again after a loss."""
        if os.path.isfile(path):
            directory, name = self._place(path)
            if name not in directory.live:
                directory.seen(name, _File(Path(path).read_bytes()))

    def closed(self, fd: int) -> None:
        self._files.pop(fd, None)

    def wrote(self, fd: int, position: int, data: bytes) -> None:
        if fd in self._files:
            self._files[fd].writes.append((position, data))

    def truncated(self, fd: int, size: int) -> None:
        if fd in self._files:
            self._files[fd].writes.append(size)

    def synced(self, fd: int, path: str) -> None:
        if fd in self._files:
            self._files[fd].sync()
        elif path in self._directories:
            self._directories[path].sync()

    def replaced(self, path: str) -> None:
        """By a file that was written aside and synced."""
        directory, name = self._place(path)
        file = _File(Path(path).read_bytes())
        directory.change(lambda live: live.update({name: file}))

    def renamed(self, old: str, new: str) -> None:
        if old in self._directories:
            self._directories[new] = self._directories.pop(old)
            return
        directory, name = self._place(old)
        file = directory.live.get(name)
        if file is not None:
            directory.change(lambda live: (live.pop(name), live.update({os.path.basename(new): file})))

    def unlinked(self, path: str) -> None:
        directory, name = self._place(path)
        if name in directory.live:
            directory.change(lambda live: live.pop(name))

    def _place(self, path: str) -> tuple[_Directory, str]:
        folder, name = os.path.split(path)
        inode = os.stat(folder).st_ino
        known = self._directories.get(folder)
        if known is None or known.inode != inode:
            known = self._directories[folder] = _Directory(inode)
        return known, name

    def lose(self, random: Random, machine: str) -> int:
        """What is below the folder `machine`. Returns how many bytes are gone."""
        lost = 0
        theirs = {at: each for at, each in self._directories.items() if at.startswith(machine)}
        for folder, directory in theirs.items():
            if not os.path.isdir(folder) or os.stat(folder).st_ino != directory.inode:
                continue
            left = random.choice(directory.states)
            for name in directory.live:
                lost += len(directory.live[name].content())
                Path(folder, name).unlink(missing_ok=True)
            for name, file in left.items():
                content = file.after_loss(random)
                lost -= len(content)
                Path(folder, name).write_bytes(content)
        for folder in theirs:
            del self._directories[folder]
        return lost
