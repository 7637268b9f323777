"""A partition directory in memory that forgets what was not synced and fails when told to.

`kill()` is the end of a process: everything written stays. `lose_power(random)` keeps, of what was not synced, any
prefix of the directory's changes and any prefix of each file's writes (the next one possibly torn or zeroed).
"""

from collections.abc import Collection, Mapping, Sequence
from random import Random

from typing_extensions import Buffer

from kafkad.core.ports import NoSpaceLeft, StorageFailed


class Crashed(Exception):
    """The process died at this very operation; the test goes on with what the store kept."""


class _Content:
    """One inode: what a reader sees now, and what survives the loss of power."""

    def __init__(self) -> None:
        self.live = bytearray()
        self.durable = b""
        self.writes: list[tuple[int, bytes] | int] = []
        self.modified_ms = 0

    def write(self, data: bytes, position: int) -> None:
        if len(self.live) < position:
            self.live.extend(bytes(position - len(self.live)))
        self.live[position : position + len(data)] = data
        self.writes.append((position, data))

    def truncate(self, size: int) -> None:
        _resize(self.live, size)
        self.writes.append(size)

    def sync(self) -> None:
        self.durable = bytes(self.live)
        self.writes.clear()

    def after_power_loss(self, random: Random) -> None:
        content = bytearray(self.durable)
        kept = random.randint(0, len(self.writes))
        for number, write in enumerate(self.writes[: kept + 1]):
            if isinstance(write, int):
                if number < kept:
                    _resize(content, write)
                continue
            position, data = write
            if number == kept:
                torn = data[: random.randint(0, len(data))]
                data = bytes(len(torn)) if random.random() < 0.3 else torn
            if len(content) < position:
                content.extend(bytes(position - len(content)))
            content[position : position + len(data)] = data
        self.live = content
        self.sync()


def _resize(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


class FakeFile:
    """`LogFile` over an inode; a renamed file stays reachable through an open handle, as on POSIX."""

    def __init__(self, store: "FakeStore", name: str) -> None:
        self._store = store
        self._name = name
        self._content: _Content | None = None

    def _opened(self) -> _Content:
        if self._content is None:
            self._content = self._store.content(self._name)
        return self._content

    def write_at(self, buffers: Sequence[Buffer], position: int) -> None:
        data = b"".join(buffers)
        content = self._opened()
        self._store.before_change(f"write {self._name}")
        if self._store.full_for is not None and self._name.endswith(self._store.full_for):
            raise NoSpaceLeft(f"no space left for {self._name}")
        if self._store.free_bytes is not None:
            growth = position + len(data) - len(content.live)
            if growth > self._store.free_bytes:
                raise NoSpaceLeft(f"no space left for {self._name}")
            self._store.free_bytes -= max(growth, 0)
        torn = self._store.torn_write()
        if torn is not None:
            content.write(data[: int(len(data) * torn)], position)
            raise Crashed(f"in the middle of a write to {self._name}")
        content.write(data, position)
        content.modified_ms = self._store.now_ms

    def read_at(self, size: int, position: int) -> bytes:
        found = bytes(self._opened().live[position : position + max(size, 0)])
        self._store.reads += 1
        self._store.read_bytes += len(found)
        return found

    def size(self) -> int:
        return len(self._opened().live)

    def truncate(self, size: int) -> None:
        content = self._opened()
        self._store.before_change(f"truncate {self._name}")
        content.truncate(size)
        content.modified_ms = self._store.now_ms

    def sync(self) -> None:
        self._store.before_change(f"sync {self._name}")
        self._store.content(self._name).sync()

    def lend(self) -> "FakeFile":
        return self

    def free(self) -> None:
        """It is of the same inode, open or not."""

    def close(self) -> None:
        self._content = None


class FakeStore:
    """`SegmentStore` in memory."""

    def __init__(self) -> None:
        self.files: dict[str, _Content] = {}
        self.durable_files: dict[str, _Content] = {}
        self.now_ms = 0
        self.free_bytes: int | None = None
        self.full_for: str | None = None
        self.fail_on: str | None = None
        self.changes = 0
        self.reads = 0
        self.read_bytes = 0
        self.crash_at: int | None = None
        self.tear: float | None = None
        self._listings: list[dict[str, _Content]] = []

    # What tests ask for.

    def kill(self) -> None:
        """The process ended; the next one finds everything that was written."""
        self.crash_at = None
        self.tear = None

    def lose_power(self, random: Random) -> None:
        self.kill()
        versions = [self.durable_files, *self._listings]
        self.files = dict(random.choice(versions))
        self.durable_files = dict(self.files)
        self._listings.clear()
        for content in dict.fromkeys(self.files.values()):
            content.after_power_loss(random)

    def flip_bit(self, name: str, position: int, bit: int) -> None:
        self.files[name].live[position] ^= 1 << bit
        self.files[name].sync()

    # How the files behave.

    def content(self, name: str) -> _Content:
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.files[name]

    def before_change(self, what: str) -> None:
        if self.fail_on is not None and self.fail_on in what:
            raise StorageFailed(f"told to fail: {what}")
        self.changes += 1
        is_torn = self.tear is not None and what.startswith("write")
        if self.crash_at is not None and self.changes >= self.crash_at and not is_torn:
            raise Crashed(what)

    def torn_write(self) -> float | None:
        if self.crash_at is not None and self.changes >= self.crash_at:
            return self.tear
        return None

    # SegmentStore.

    def sizes(self) -> Mapping[str, int]:
        return {name: len(content.live) for name, content in self.files.items()}

    def names(self) -> Collection[str]:
        return tuple(self.files)

    def open(self, name: str, *, create: bool = False) -> FakeFile:
        if create and name not in self.files:
            self._change_directory(f"create {name}", {**self.files, name: _Content()})
        return FakeFile(self, name)

    def read(self, name: str) -> bytes:
        return bytes(self.content(name).live)

    def replace(self, name: str, content: bytes) -> None:
        fresh = _Content()
        fresh.write(content, 0)
        fresh.sync()
        self._change_directory(f"replace {name}", {**self.files, name: fresh})
        self.sync_directory()

    def has(self, name: str) -> bool:
        return name in self.files

    def modified_ms(self, name: str) -> int:
        return self.content(name).modified_ms

    def set_modified_ms(self, name: str, modified_ms: int) -> None:
        self.content(name).modified_ms = modified_ms

    def rename(self, old: str, new: str) -> None:
        content = self.content(old)
        if self.full_for is not None and new.endswith(self.full_for):
            raise NoSpaceLeft(f"no space left for {new}")
        files = {name: other for name, other in self.files.items() if name != old}
        self._change_directory(f"rename {old}", {**files, new: content})

    def unlink(self, name: str) -> None:
        if name in self.files:
            files = {other: content for other, content in self.files.items() if other != name}
            self._change_directory(f"unlink {name}", files)

    def sync_directory(self) -> None:
        self.before_change("sync directory")
        self.durable_files = dict(self.files)
        self._listings.clear()

    def _change_directory(self, what: str, files: dict[str, _Content]) -> None:
        self.before_change(what)
        self.files = files
        self._listings.append(dict(files))
