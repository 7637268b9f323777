"""Up to when is a table complete? Hours before the marker have all of their records, but for those that come late.

Each partition has reached the largest timestamp that the table has of it, and the marker is the smallest of these over
the partitions. Both go from commit to commit with the end offsets, as part of the same commit. The marker never goes
back: what was said to be complete stays so.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta

from kafkad.export.sinks.sink import Commit, TableState
from kafkad.export.writing import WrittenFile

HOUR_US = 3_600_000_000


def reached_by(
    files: Iterable[WrittenFile], began_us: int, idle: Collection[int] = (), idle_after_us: int = 0
) -> dict[int, int]:
    """Where a run that began then takes partitions: to their largest timestamps. One from the future says no more than
    that it is now. `idle` ones have nothing beyond the run: they are as far as the clock, but for `idle_after_us`.
    """
    found = dict.fromkeys(idle, began_us - idle_after_us)
    for file in files:
        if file.max_timestamp is not None:
            found[file.partition] = max(found.get(file.partition, 0), min(file.max_timestamp, began_us))
    return found


def carried(state: TableState, commit: Commit) -> tuple[dict[int, int], int | None]:
    """What partitions have reached with this commit, and the marker. A topic that was made again begins anew."""
    continues = state.topic_id == commit.topic_id
    reached = dict(state.reached) if continues else {}
    for partition, time in commit.reached.items():
        reached[partition] = max(reached.get(partition, time), time)
    return reached, _marker(reached, commit.waits_for, state.complete_until if continues else None)


def completes_an_hour(state: TableState, commit: Commit) -> bool:
    """Whether the commit would be worth making although it has no records."""
    _, until = carried(state, commit)
    return until is not None and (state.complete_until is None or hour_of(until) > hour_of(state.complete_until))


def hour_of(time_us: int) -> datetime:
    """The hour that this time is in: those before it are complete."""
    return datetime.fromtimestamp(0, UTC) + timedelta(hours=time_us // HOUR_US)


def _marker(reached: Mapping[int, int], waits_for: Collection[int], before: int | None) -> int | None:
    """Unmoved while there is a partition that has reached nothing yet."""
    if not reached or any(partition not in reached for partition in waits_for):
        return before
    now = min(reached.values())
    return now if before is None else max(before, now)
