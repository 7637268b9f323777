"""How full may the disk of a log directory be before clients have to wait?

What is left then is for what goes on: offsets of groups, ends of transactions, checkpoints, and everything that makes
room. Clients are let in again only at some more room, so that a disk on the limit does not change its mind with each
batch.
"""

from kafkad.core.types import FreeSpace

LEAST_BYTES = 256 * 1024 * 1024
_SHARE = 20


def least_free_bytes(configured: int | None, total_bytes: int) -> int:
    """`configured` is kafkad.log.dirs.min.free.bytes. Small file systems keep a twentieth of themselves."""
    return min(LEAST_BYTES, total_bytes // _SHARE) if configured is None else configured


def enough_free_bytes(least: int) -> int:
    """From here on a directory that was short of room is not any more."""
    return least + least // 4


def is_short_of_space(room: FreeSpace, least: int, *, was_short: bool) -> bool:
    return room.free_bytes < (enough_free_bytes(least) if was_short else least)
