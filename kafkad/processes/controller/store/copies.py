"""Opens the coordination store of a single broker. A lost store is restored from its copy."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from kafkad.adapters.files.log_directory import META_PROPERTIES, LogDirectoryUnusable
from kafkad.adapters.files.reserved_space import FILE_NAME as RESERVED
from kafkad.adapters.operating_system.clocks import wall_clock_ms
from kafkad.adapters.stores.embedded_store import FILE_NAME, EmbeddedStore
from kafkad.adapters.stores.store_copy import COPY_NAME, is_lost, restore
from kafkad.core.controller.startup.reconciliation import parse_directory
from kafkad.core.controller.startup.repair import adjust_restored
from kafkad.core.ports import NoSpaceLeft, StorageFailed

log = logging.getLogger(__name__)


def open_store(paths: Sequence[Path], session_id: int, node_id: int) -> EmbeddedStore:
    """Open the store in the first of these usable log directories. Raises `LogDirectoryUnusable`, `StorageFailed` and
    `NoSpaceLeft`.
    """
    first = paths[0]
    if is_lost(first):
        _restore(paths, session_id, node_id)
    try:
        return EmbeddedStore(first / FILE_NAME, session_id)
    except NoSpaceLeft:
        raise
    except StorageFailed as failure:
        if not (first / COPY_NAME).exists():
            raise
        remedy = f"if {FILE_NAME} is damaged, move it away, and {COPY_NAME} takes its place"
        raise StorageFailed(f"{failure}; {remedy}") from failure


def _restore(paths: Sequence[Path], session_id: int, node_id: int) -> None:
    first = paths[0]
    how = "empty" if (first / FILE_NAME).exists() else "missing"
    topics = _topics_on_disk(paths)
    try:
        written_s = restore(
            first, session_id, partial(adjust_restored, on_disk=topics, broker_id=node_id, wall_ms=wall_clock_ms())
        )
    except FileNotFoundError:
        _reject_other_store(paths)
        # A new broker that is killed during its first start also leaves an empty store, but no claimed directory.
        if (first / META_PROPERTIES).exists() and (how == "empty" or (first / RESERVED).exists()):
            _log_lost(first, how, f"there is no {COPY_NAME}")
    except NoSpaceLeft:
        raise
    except StorageFailed as damage:
        _log_lost(first, how, f"its copy can't be read: {damage}")
    else:
        written = datetime.fromtimestamp(written_s, UTC).isoformat(timespec="seconds")
        log.error(
            "%s was %s and is restored from its copy of %s: what was changed of topics and configurations after that "
            "is lost; topics created after that are taken over from their directories",
            first / FILE_NAME,
            how,
            written,
        )


def _log_lost(first: Path, how: str, cause: str) -> None:
    log.error(
        "%s is %s, and %s: configurations of topics, brokers and groups are lost; topics are taken over from their "
        "directories",
        first / FILE_NAME,
        how,
        cause,
    )


def _reject_other_store(paths: Sequence[Path]) -> None:
    """Raises `LogDirectoryUnusable` if another directory has a store: adopted topics would have no configs."""
    for other in paths[1:]:
        if not is_lost(other):
            raise LogDirectoryUnusable(
                f"{other} has the topics of this broker in {FILE_NAME}: name it first in log.dirs"
            )


def _topics_on_disk(paths: Sequence[Path]) -> set[str]:
    """The topics with partitions in these directories, except for unreadable directories, which are not served."""
    topics = set()
    for path in paths:
        try:
            names = [each.name for each in path.iterdir()]
        except OSError:
            continue
        topics |= {partition.topic for name in names if (partition := parse_directory(name)) is not None}
    return topics
