"""The free space of a log directory below which clients have to wait.

The reserve is for offsets of groups, ends of transactions, checkpoints, and everything that frees space. Clients may
write again only above a higher limit, so that the state does not change with each batch.
"""

from kafkad.core.types import FreeSpace

LEAST_BYTES = 256 * 1024 * 1024
_SHARE = 20


def least_free_bytes(configured: int | None, total_bytes: int) -> int:
    """`configured` is kafkad.log.dirs.min.free.bytes. The default for small file systems is a twentieth of them."""
    return min(LEAST_BYTES, total_bytes // _SHARE) if configured is None else configured


def enough_free_bytes(least: int) -> int:
    """The free bytes from which on a full directory accepts writes again."""
    return least + least // 4


def is_short_of_space(space: FreeSpace, least: int, *, was_short: bool) -> bool:
    return space.free_bytes < (enough_free_bytes(least) if was_short else least)
