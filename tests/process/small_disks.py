"""Disks that are full, in bytes or in names, as a test needs them."""

import errno
from pathlib import Path

MOUNT_OPTIONS = "size=1m,nr_inodes=64"


def fill(disk: Path) -> None:
    with open(disk / "filler", "wb", buffering=0) as file:
        file.write(bytes(2 << 20))


def use_up_names(disk: Path) -> list[Path]:
    """The files that took the last inodes."""
    made: list[Path] = []
    while True:
        try:
            (disk / f"filler-{len(made)}").touch()
        except OSError as error:
            assert error.errno == errno.ENOSPC
            return made
        made.append(disk / f"filler-{len(made)}")
