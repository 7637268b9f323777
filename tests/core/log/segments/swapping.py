"""A swap in one go, as the owner of a log makes it in steps."""

from collections.abc import Sequence

from kafkad.core.log.effects import UnlinkFiles
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.segments.cleaned_files import CleanedFiles
from kafkad.core.log.segments.replacement import begin_swap, finish_swap, remove_older_cleaned
from kafkad.core.log.segments.segment import Segment


def replace_segments(log: PartitionLog, sources: Sequence[Segment], cleaned: CleanedFiles) -> UnlinkFiles:
    """With the syncs between the steps."""
    if remove_older_cleaned(log, cleaned):
        log.store.sync_directory()
    begin_swap(log, cleaned)
    log.store.sync_directory()
    removed = finish_swap(log, sources)
    log.store.sync_directory()
    return removed
