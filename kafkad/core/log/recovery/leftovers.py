"""Which files does an interrupted deletion, compaction or split leave, and how is it completed?

`.deleted` files are removed. `.cleaned` files are incomplete and removed. A `.swap` file is complete and replaces the
segments it covers, unless a `.cleaned` file at or below it shows that not all files of the group were renamed.
"""

from collections.abc import Mapping

from kafkad.core.log.records.batch_scan import walk_batches
from kafkad.core.log.segments.layout import (
    CLEANED,
    DELETED,
    LOG,
    PRODUCER_SNAPSHOT,
    SWAP,
    SegmentFileName,
    parse_file_name,
)
from kafkad.core.ports import SegmentStore

_OLD_DELETED = ".delete"


def finish_interrupted(store: SegmentStore, found: Mapping[str, int]) -> dict[str, int]:
    """Complete or undo interrupted operations; return the files of the directory with their sizes afterwards.

    `found` has the files with their sizes before.
    """
    sizes = dict(found)
    if not any(name.endswith((DELETED, CLEANED, SWAP, _OLD_DELETED, ".tmp")) for name in sizes):
        return sizes
    _remove_partial(store, sizes)
    swaps = {name: parsed for name in sizes if (parsed := parse_file_name(name)) and parsed.suffix == SWAP}
    if swaps:
        _complete_swaps(store, sizes, swaps)
    store.sync_directory()
    return dict(store.sizes())


def _remove_partial(store: SegmentStore, sizes: dict[str, int]) -> None:
    parsed = [(name, parse_file_name(name)) for name in sizes]
    cleaned = [file.base_offset for _, file in parsed if file is not None and file.suffix == CLEANED]
    first_cleaned = min(cleaned, default=None)
    for name, file in parsed:
        is_undone = (
            file is not None and file.suffix == SWAP and first_cleaned is not None and file.base_offset >= first_cleaned
        )
        if is_undone or name.endswith((DELETED, CLEANED, _OLD_DELETED, ".tmp")):
            store.unlink(name)
            del sizes[name]


def _complete_swaps(store: SegmentStore, sizes: dict[str, int], swaps: dict[str, SegmentFileName]) -> None:
    """Remove the replaced segments, then rename the swapped ones."""
    logs = [(name, file) for name, file in swaps.items() if file.kind == LOG]
    if logs:
        first = min(file.base_offset for _, file in logs)
        # Also of an empty segment: the transaction indexes of the replaced segments must go.
        end = max(first + 1, *(_next_offset(store, name, sizes[name], file.base_offset) for name, file in logs))
        for name in sizes:
            file = parse_file_name(name)
            if file is None or file.suffix or file.kind == PRODUCER_SNAPSHOT:
                continue
            if first <= file.base_offset < end:
                store.unlink(name)
    for name in swaps:
        store.rename(name, name.removesuffix(SWAP))


def _next_offset(store: SegmentStore, name: str, size: int, base_offset: int) -> int:
    next_offset = base_offset
    for _, header in walk_batches(store.open(name).read_at, 0, size):
        next_offset = header.next_offset
    return next_offset
