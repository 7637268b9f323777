"""The core's interfaces to the outside, as Protocols; `kafkad.adapters` implements them.

Each port has one contract test suite for its fake and its real implementation.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from typing_extensions import Buffer


class StorageFailed(Exception):
    """A log directory can't be written or synced: it goes offline, without retries."""


class NoSpaceLeft(StorageFailed):
    """The write did not fit (ENOSPC, EDQUOT); it was undone, and the file has its previous length."""


class NotInMemory(Exception):
    """A read would wait for the disk, which the caller does not allow."""


class LogFile(Protocol):
    """One file of a partition directory. Every method raises `StorageFailed` if the disk fails."""

    def write_at(self, buffers: Sequence[Buffer], position: int) -> None:
        """Write all of `buffers` in a row at byte `position`, or raise and keep the old length."""

    def read_at(self, size: int, position: int) -> bytes:
        """Up to `size` bytes from byte `position`; shorter only at the end of the file. May raise `NotInMemory`."""

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Wait until all written bytes are on disk. In the owner's thread, or in any thread with a `lend` handle."""

    def lend(self) -> "LogFile":
        """A handle that another thread may `sync` until the owner calls `free` on it.

        It is this open file, so that it reports errors of earlier writes, or a new handle if the file is not open.
        """

    def free(self) -> None: ...

    def close(self) -> None:
        """Close the handle; the file may be opened again later."""


class SegmentStore(Protocol):
    """The directory of one partition; names are file names inside it."""

    def sizes(self) -> Mapping[str, int]:
        """Every file name in the directory with its length in bytes."""

    def names(self) -> Collection[str]:
        """The names alone, in a tenth of the time."""

    def open(self, name: str, *, create: bool = False) -> LogFile: ...

    def read(self, name: str) -> bytes:
        """The content of a small file (checkpoint, snapshot). Raises FileNotFoundError."""

    def replace(self, name: str, content: bytes) -> None:
        """Replace the content of `name`: temporary file, sync, atomic rename."""

    def has(self, name: str) -> bool:
        """Whether a file of this name exists."""

    def modified_ms(self, name: str) -> int:
        """Wall-clock milliseconds of the last change of the file."""

    def set_modified_ms(self, name: str, modified_ms: int) -> None:
        """Set the time of the last change."""

    def rename(self, old: str, new: str) -> None: ...

    def unlink(self, name: str) -> None:
        """Remove the file, if it exists."""

    def sync_directory(self) -> None: ...


class Pattern(Protocol):
    """A compiled regular expression of a client; `fullmatch` as in the standard library.

    The syntax is RE2's, as in Apache Kafka: Python's own expressions can run for years.
    """

    def fullmatch(self, text: str, /) -> object | None:
        """Raises ValueError if matching takes too long."""


CompilePattern = Callable[[str], Pattern]
"""Raises ValueError with the reason."""
