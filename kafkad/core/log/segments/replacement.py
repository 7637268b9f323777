"""How does a cleaned segment take the place of those that it was made of? (UnifiedLog.replaceSegments)

In three steps, and after each the names of the directory have to be synced, by whoever calls them, before the next:
`remove_older_cleaned`, `begin_swap`, `finish_swap`. What the cleaned files hold is on disk before. During the last step
nobody may have a position in the segments, or open them by name: the caller has told the readers, and has waited for
them. A crash before the second step leaves the log as it was; after it, loading finishes what was begun
(`recovery.leftovers`), so a log that changes otherwise meanwhile takes it back first (`abort_swap`).
"""

from collections.abc import Sequence

from kafkad.core.log.effects import UnlinkFiles
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.recovery.state_files import note_aborted_counts
from kafkad.core.log.segments.cleaned_files import CleanedFiles
from kafkad.core.log.segments.layout import CLEANED, SWAP, file_name, parse_file_name
from kafkad.core.log.segments.segment import Segment
from kafkad.core.ports import NoSpaceLeft, StorageFailed


def are_still_there(log: PartitionLog, sources: Sequence[Segment]) -> bool:
    """Whether these are segments of the log, one after the other, and none of them is active."""
    if not sources:
        return False
    bases = log.segments.base_offsets
    if sources[0].base_offset not in bases:
        return False
    first = bases.index(sources[0].base_offset)
    present = [log.segments[number] for number in range(first, min(first + len(sources), len(bases) - 1))]
    return len(present) == len(sources) and all(mine is other for mine, other in zip(sources, present, strict=True))


def begin_swap(log: PartitionLog, cleaned: CleanedFiles) -> None:
    """When this is on disk, there is no way back. Raises `NoSpaceLeft` with the log as it was, and `StorageFailed`."""
    store = log.store
    log.segments.begun_swap = cleaned
    try:
        for kind in cleaned.kinds():
            store.rename(file_name(cleaned.base_offset, kind, CLEANED), file_name(cleaned.base_offset, kind, SWAP))
    except NoSpaceLeft:
        abort_swap(log)
        raise


def abort_swap(log: PartitionLog) -> None:
    """What was begun is removed, and stays away: loading would finish it."""
    segments = log.segments
    cleaned, segments.begun_swap = segments.begun_swap, None
    if cleaned is None:
        return
    # The log's first: a swap without it is none.
    for kind in cleaned.kinds():
        log.store.unlink(file_name(cleaned.base_offset, kind, SWAP))
        log.store.unlink(file_name(cleaned.base_offset, kind, CLEANED))
    log.store.sync_directory()


def finish_swap(log: PartitionLog, sources: Sequence[Segment]) -> UnlinkFiles:
    """Put what was begun in the place of `sources`, which begin with the same offset; returns the files to remove when
    that is on disk. Raises `StorageFailed`.
    """
    segments = log.segments
    cleaned, segments.begun_swap = segments.begun_swap, None
    assert cleaned is not None and cleaned.base_offset == sources[0].base_offset and are_still_there(log, sources)
    waiting = log.segments.replace(sources, _segment(log, sources[0], cleaned))
    try:
        for kind in cleaned.kinds():
            log.store.rename(file_name(cleaned.base_offset, kind, SWAP), file_name(cleaned.base_offset, kind))
    except NoSpaceLeft as no_space:
        # The log is not as it was any more: the next start makes the rest of the swap.
        raise StorageFailed(str(no_space)) from no_space
    note_aborted_counts(log.store, log.segments)
    log.rewrites += 1
    log.generation += 1
    log.forget_positions()
    if log.high_watermark.segment_base in {segment.base_offset for segment in sources}:
        log.high_watermark = log.position_of(log.high_watermark.offset)
    return UnlinkFiles(names=waiting, delay_ms=log.config.file_delete_delay_ms, generation=log.generation)


def remove_older_cleaned(log: PartitionLog, cleaned: CleanedFiles) -> bool:
    """Remove what passes have left that did not come to their end; whether there was anything.

    It must not come back: to loading, one of an offset that is not higher would say that the swap was only begun. Those
    of higher offsets may be written right now, by the same pass.
    """
    wanted = {file_name(cleaned.base_offset, kind, CLEANED) for kind in cleaned.kinds()}
    others = [name for name in _cleaned_names(log, cleaned.base_offset) if name not in wanted]
    for name in others:
        log.store.unlink(name)
    return bool(others)


def _cleaned_names(log: PartitionLog, last_offset: int) -> list[str]:
    parsed = [(name, parse_file_name(name)) for name in log.store.names() if name.endswith(CLEANED)]
    return [name for name, file in parsed if file is not None and file.base_offset <= last_offset]


def _segment(log: PartitionLog, first: Segment, cleaned: CleanedFiles) -> Segment:
    segment = Segment(
        log.store,
        log.config,
        cleaned.base_offset,
        size=cleaned.size,
        now_ms=first.created_ms,
        roll_jitter=first.roll_jitter,
        index_sizes=(cleaned.index_bytes, cleaned.time_index_bytes),
        txn_index_size=cleaned.txn_index_bytes or None,
    )
    segment.first_timestamp = cleaned.first_timestamp
    segment.max_timestamp = cleaned.max_timestamp
    segment.offset_of_max_timestamp = cleaned.offset_of_max_timestamp
    return segment
