"""The marker of complete hours: hours before the marker have all their records, except late ones.

The progress of a partition is the largest timestamp of its exported records. The marker is the smallest progress of all
partitions. Both are part of each commit, like the end offsets. The marker never decreases.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta

from kafkad_lakehouse.export.sinks.sink import Commit, TableState
from kafkad_lakehouse.export.writing import WrittenFile

HOUR_US = 3_600_000_000


def reached_by(
    files: Iterable[WrittenFile], began_us: int, idle: Collection[int] = (), idle_after_us: int = 0
) -> dict[int, int]:
    """The progress of partitions by a run: the largest timestamps of their records, but at most `began_us`.

    `idle` partitions have no further records: their progress is at least `began_us` - `idle_after_us`.
    """
    found = dict.fromkeys(idle, began_us - idle_after_us)
    for file in files:
        if file.max_timestamp is not None:
            found[file.partition] = max(found.get(file.partition, 0), min(file.max_timestamp, began_us))
    return found


def progress_after(state: TableState, commit: Commit) -> tuple[dict[int, int], int | None]:
    """The progress of the partitions after this commit, and the marker. Both restart for a recreated topic."""
    continues = state.topic_id == commit.topic_id
    reached = dict(state.reached) if continues else {}
    for partition, time in commit.reached.items():
        reached[partition] = max(reached.get(partition, time), time)
    return reached, _marker(reached, commit.required_partitions, state.complete_until if continues else None)


def completes_an_hour(state: TableState, commit: Commit) -> bool:
    """Whether a commit without records would complete an hour."""
    _, until = progress_after(state, commit)
    return until is not None and (state.complete_until is None or hour_of(until) > hour_of(state.complete_until))


def hour_of(time_us: int) -> datetime:
    """The hour of this time; earlier hours are complete."""
    return datetime.fromtimestamp(0, UTC) + timedelta(hours=time_us // HOUR_US)


def _marker(reached: Mapping[int, int], required_partitions: Collection[int], before: int | None) -> int | None:
    """The new marker; unchanged while a partition with records has no progress."""
    if not reached or any(partition not in reached for partition in required_partitions):
        return before
    now = min(reached.values())
    return now if before is None else max(before, now)
