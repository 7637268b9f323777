"""How does a cleaned segment replace its source segments? (UnifiedLog.replaceSegments)

In three steps: `remove_older_cleaned`, `begin_swap`, `finish_swap`. The caller syncs the directory after each of them,
and the contents of the cleaned files before the first. During the last step no reader may have a position in the
segments, or open them by name: the caller has notified the readers and waited for them. A crash before the second step
leaves the log unchanged; after it, loading completes the swap (`recovery.leftovers`). So any other change of these
segments must abort the swap first (`abort_swap`).
"""

from collections.abc import Sequence

from kafkad.core.log.effects import UnlinkFiles
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.recovery.state_files import store_aborted_counts
from kafkad.core.log.segments.cleaned_files import CleanedFiles
from kafkad.core.log.segments.layout import CLEANED, SWAP, file_name, parse_file_name
from kafkad.core.log.segments.segment import Segment
from kafkad.core.ports import NoSpaceLeft, StorageFailed


def are_current(log: PartitionLog, sources: Sequence[Segment]) -> bool:
    """Whether `sources` are contiguous segments of the log, without the active one."""
    if not sources:
        return False
    bases = log.segments.base_offsets
    if sources[0].base_offset not in bases:
        return False
    first = bases.index(sources[0].base_offset)
    current = [log.segments[number] for number in range(first, min(first + len(sources), len(bases) - 1))]
    return len(current) == len(sources) and all(
        source is segment for source, segment in zip(sources, current, strict=True)
    )


def begin_swap(log: PartitionLog, cleaned: CleanedFiles) -> None:
    """Rename the cleaned files to `.swap`. Raises `NoSpaceLeft` (the log is unchanged) and `StorageFailed`."""
    store = log.store
    log.segments.pending_swap = cleaned
    try:
        for kind in cleaned.kinds():
            store.rename(file_name(cleaned.base_offset, kind, CLEANED), file_name(cleaned.base_offset, kind, SWAP))
    except NoSpaceLeft:
        abort_swap(log)
        raise


def abort_swap(log: PartitionLog) -> None:
    """Remove the files of a pending swap durably: loading would complete it."""
    segments = log.segments
    cleaned, segments.pending_swap = segments.pending_swap, None
    if cleaned is None:
        return
    # The `.log` file first: without it the swap is void.
    for kind in cleaned.kinds():
        log.store.unlink(file_name(cleaned.base_offset, kind, SWAP))
        log.store.unlink(file_name(cleaned.base_offset, kind, CLEANED))
    log.store.sync_directory()


def finish_swap(log: PartitionLog, sources: Sequence[Segment]) -> UnlinkFiles:
    """Replace `sources` by the pending swap, which has the same base offset; return the files to remove once the names
    are on disk. Raises `StorageFailed`.
    """
    segments = log.segments
    cleaned, segments.pending_swap = segments.pending_swap, None
    assert cleaned is not None and cleaned.base_offset == sources[0].base_offset and are_current(log, sources)
    removed = log.segments.replace(sources, _segment(log, sources[0], cleaned))
    try:
        for kind in cleaned.kinds():
            log.store.rename(file_name(cleaned.base_offset, kind, SWAP), file_name(cleaned.base_offset, kind))
    except NoSpaceLeft as no_space:
        # The log has changed already: the next start completes the swap.
        raise StorageFailed(str(no_space)) from no_space
    store_aborted_counts(log.store, log.segments)
    log.rewrites += 1
    log.generation += 1
    log.clear_positions()
    if log.high_watermark.segment_base in {segment.base_offset for segment in sources}:
        log.high_watermark = log.position_of(log.high_watermark.offset)
    return UnlinkFiles(names=removed, delay_ms=log.config.file_delete_delay_ms, generation=log.generation)


def remove_older_cleaned(log: PartitionLog, cleaned: CleanedFiles) -> bool:
    """Remove the cleaned files of aborted passes; return whether there were any.

    They must not reappear: loading undoes a swap if a `.cleaned` file has the same or a lower offset. The running pass
    may be writing cleaned files of higher offsets.
    """
    current = {file_name(cleaned.base_offset, kind, CLEANED) for kind in cleaned.kinds()}
    others = [name for name in _cleaned_names(log, cleaned.base_offset) if name not in current]
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
