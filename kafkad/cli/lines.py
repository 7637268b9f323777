"""Lines from a file descriptor, in groups that are worth one batch each.

A line that was typed is handed on at once; lines that pour in are collected. Nothing is lost or changed:
only the line feed at the end of each line is taken off.
"""

import os
import select
from collections.abc import Iterator

GROUP_BYTES = 512 * 1024
LINGER_S = 0.005
_CHUNK_BYTES = 256 * 1024


def line_groups(descriptor: int) -> Iterator[list[bytes]]:
    """Groups of whole lines, each as large as GROUP_BYTES or until no more came for LINGER_S."""
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
        # Regular files can't be waited for on some kernels; they never make anyone wait either.
        return True
    return bool(readable)
