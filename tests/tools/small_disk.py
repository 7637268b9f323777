"""A file system in memory that is really full when it is full. Mounting one needs root."""

import errno
import os
import subprocess
from pathlib import Path

_FILLER = "filler"


class SmallDisk:
    """A tmpfs of `size` bytes at `path`, unmounted afterwards, whoever has files of it open."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self._size = size

    def __enter__(self) -> "SmallDisk":
        self.path.mkdir(parents=True)
        options = f"size={self._size},mode=755"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "kafkad-test", self.path], check=True)
        return self

    def __exit__(self, *_error: object) -> None:
        subprocess.run(["umount", "--lazy", self.path], check=True)

    @property
    def free_bytes(self) -> int:
        volume = os.statvfs(self.path)
        return volume.f_bavail * volume.f_frsize

    def fill(self, *, leave: int = 0) -> None:
        """Somebody else's file takes what is free."""
        with open(self.path / _FILLER, "ab", buffering=0) as file:
            try:
                while self.free_bytes > leave:
                    file.write(bytes(min(1 << 20, self.free_bytes - leave)))
            except OSError as error:
                assert error.errno == errno.ENOSPC, error

    def free(self) -> None:
        """It is removed."""
        (self.path / _FILLER).unlink()
