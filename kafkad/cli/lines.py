"""Read lines from a file descriptor, in groups for one batch each.

A typed line is returned at once; fast lines are collected. Only the line feed at the end of each line is removed.
"""

import os
import select
from collections.abc import Iterator

GROUP_BYTES = 512 * 1024
LINGER_S = 0.005
_CHUNK_BYTES = 256 * 1024


def line_groups(descriptor: int) -> Iterator[list[bytes]]:
    """Groups of complete lines. A group ends at GROUP_BYTES, or after LINGER_S without a line."""
    rest = b""
    group: list[bytes] = []
    group_bytes = 0
    while chunk := os.read(descriptor, _CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(b"\n")
        group += whole
        group_bytes += len(chunk)
        if group and (group_bytes >= GROUP_BYTES or not _more_within(descriptor, LINGER_S)):
            yield group
            group, group_bytes = [], 0
    if rest:
        group.append(rest)
    if group:
        yield group


def _more_within(descriptor: int, seconds: float) -> bool:
    try:
        readable, _, _ = select.select([descriptor], [], [], seconds)
    except PermissionError:
        # Some kernels can't wait for regular files, which never block.
        return True
    return bool(readable)
