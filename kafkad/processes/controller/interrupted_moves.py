"""A stop during a move to another log directory leaves two directories of a partition: the new one is used.

The new directory names its source; it has all records of the old directory, and may have more.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence

from kafkad.adapters.files.log_directory import LogDirectory
from kafkad.adapters.files.moved_directory import forget_synced_source, mark_for_deletion, moved_from
from kafkad.core.controller.startup.reconciliation import FoundDirectory, parse_directory
from kafkad.core.ports import StorageFailed

log = logging.getLogger(__name__)


def without_sources(
    found: Iterable[FoundDirectory], directories: Sequence[LogDirectory], *, is_first_incarnation: bool
) -> list[FoundDirectory]:
    """`found`, without the sources of moves, which are renamed for removal.

    While the broker runs, its workers rename them.
    """
    by_name: dict[str, list[FoundDirectory]] = defaultdict(list)
    for each in found:
        by_name[each.name].append(each)
    kept: list[FoundDirectory] = []
    for same in by_name.values():
        kept += same if len(same) == 1 else _without_moved_sources(same, directories, renames=is_first_incarnation)
    return kept


def _without_moved_sources(
    same: list[FoundDirectory], directories: Sequence[LogDirectory], *, renames: bool
) -> list[FoundDirectory]:
    paths = {str(directories[each.log_dir].path): each for each in same}
    sources = []
    for path, each in paths.items():
        came_from = moved_from(f"{path}/{each.name}")
        source = paths.get(came_from) if came_from is not None else None
        if source is not None and moved_from(f"{came_from}/{each.name}") == path:
            # Each directory names the other one as its source.
            return same
        if source is not None and source is not each and source.topic_id == each.topic_id:
            sources.append(source)
            if renames:
                _remove(source, each, directories)
    return [each for each in same if each not in sources]


def _remove(source: FoundDirectory, moved: FoundDirectory, directories: Sequence[LogDirectory]) -> None:
    partition = parse_directory(source.name)
    assert partition is not None, "only directories of partitions name their source"
    path = directories[source.log_dir].path / source.name
    try:
        mark_for_deletion(path, partition)
        forget_synced_source(directories[moved.log_dir].path / moved.name)
    except StorageFailed as error:
        log.warning("%s was moved, its old directory can't be renamed: %s", partition, error)
    else:
        log.info("%s was moved to %s, the rest of %s is removed", partition, directories[moved.log_dir].path, path)
