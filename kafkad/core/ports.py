"""The core's interfaces to the outside, as Protocols; `kafkad.adapters` implements them.

Each port has one contract test suite which its fake and its real implementation both pass.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from typing_extensions import Buffer


class StorageFailed(Exception):
    """A log directory can't be written or synced any more: it goes offline, nothing is retried in it."""


class NoSpaceLeft(StorageFailed):
    """The write did not fit (ENOSPC, EDQUOT); it was taken back, and the file is as long as before."""


class NotInMemory(Exception):
    """A read would have to wait for the disk, and its caller must not wait."""


class LogFile(Protocol):
    """One file of a partition directory. Every method raises `StorageFailed` when the disk fails."""

    def write_at(self, buffers: Sequence[Buffer], position: int) -> None:
        """Write all of `buffers` in a row at byte `position`, or raise and leave the old length."""

    def read_at(self, size: int, position: int) -> bytes:
        """Up to `size` bytes from byte `position`; shorter only at the end of the file. May raise `NotInMemory`."""

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Wait until all written bytes are on disk. In the owner's thread, or with a lent handle in any thread."""

    def lend(self) -> "LogFile":
        """A handle that another thread may `sync` until the owner calls `free` on it.

        It is this file, which stays open so that no error of earlier writes is missed, or another handle when the file
        is not open.
        """

    def free(self) -> None: ...

    def close(self) -> None:
        """Give the handle back; the file may be opened again later."""


class SegmentStore(Protocol):
    """The directory of one partition; names are file names inside it."""

    def sizes(self) -> Mapping[str, int]:
        """Every file name in the directory with its length in bytes."""

    def names(self) -> Collection[str]:
        """The names alone, which takes a tenth of the time."""

    def open(self, name: str, *, create: bool = False) -> LogFile: ...

    def read(self, name: str) -> bytes:
        """The whole of a small file (checkpoint, snapshot). Raises FileNotFoundError."""

    def replace(self, name: str, content: bytes) -> None:
        """Replace `name` as a whole: temporary file, sync, atomic rename."""

    def has(self, name: str) -> bool:
        """Whether there is a file of this name now."""

    def modified_ms(self, name: str) -> int:
        """Wall-clock milliseconds of the last change of the file."""

    def set_modified_ms(self, name: str, modified_ms: int) -> None:
        """Say that the last change was then."""

    def rename(self, old: str, new: str) -> None: ...

    def unlink(self, name: str) -> None:
        """Remove the file; absent is fine."""

    def sync_directory(self) -> None: ...


class Pattern(Protocol):
    """A compiled regular expression of a client; `fullmatch` as in the standard library.

    They are RE2's, as in Apache Kafka: Python's own can be made to run for years.
    """

    def fullmatch(self, text: str, /) -> object | None:
        """Raises ValueError when matching takes too long."""


CompilePattern = Callable[[str], Pattern]
"""Raises ValueError with the reason."""
