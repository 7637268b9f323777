"""The offsets of a stream in the format of Spark's checkpoints, and the ends of batches. Pure.

The format is that of Spark's Kafka source: `{"orders": {"0": 17}}`. The end of a query's first batch also has the start
of the batch. Spark stores only ends, and would request the start again when the batch is repeated, with another result.
The start is stored in an invalid topic name without partitions, which Spark's Kafka source ignores.
"""

import json
import math
from collections.abc import Mapping

from kafkad_lakehouse.export.problems import DataLost
from kafkad_lakehouse.export.ranges import Bounds, OffsetRange

Partition = tuple[str, int]
Offsets = dict[Partition, int]
Spelled = dict[str, dict[str, int]]
_BEGUN = "begun at "


def spelled(offsets: Mapping[Partition, int]) -> Spelled:
    found: Spelled = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def read_offsets(given: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {(topic, int(partition)): offset for topic, rows in given.items() for partition, offset in rows.items()}


def with_beginning(end: Spelled, start_offsets: Spelled) -> Spelled:
    """The end of a batch together with its start."""
    return {**end, f"{_BEGUN}{json.dumps(start_offsets)}": {}}


def beginning(end: Spelled) -> Spelled | None:
    """The start of the batch with this end, if it is stored."""
    for name in end:
        if name.startswith(_BEGUN):
            found: Spelled = json.loads(name.removeprefix(_BEGUN))
            return found
    return None


def next_end(
    start: Mapping[Partition, int], bounds: Mapping[Partition, Bounds], max_offsets: int | None, *, fails_on_loss: bool
) -> Offsets:
    """The end of a batch from `start` on, with about `max_offsets` offsets, in proportion to the available ones.

    A partition without a start begins at its log start offset. Raises `DataLost` for a deleted partition or a truncated
    log; without `fails_on_loss` a deleted partition is omitted, and a truncated one continues at its end.
    """
    if fails_on_loss:
        for row in start:
            _check_partition(row, start[row], bounds.get(row))
    begins = {row: min(start.get(row, each.earliest), each.end) for row, each in bounds.items()}
    sizes = {row: each.end - begins[row] for row, each in bounds.items()}
    total = sum(sizes.values())
    if max_offsets is None or total <= max_offsets:
        return {row: each.end for row, each in bounds.items()}
    return {row: min(bounds[row].end, begins[row] + _share(max_offsets * sizes[row] / total)) for row in bounds}


def up_to(
    bounds: Mapping[Partition, Bounds], target: Mapping[Partition, int], start: Mapping[Partition, int]
) -> dict[Partition, Bounds]:
    """The bounds without records and partitions after `target`."""
    found = {}
    for row, each in bounds.items():
        last = max(target.get(row, -1), start.get(row, -1))
        if last >= 0:
            found[row] = Bounds(each.earliest, min(each.end, last))
    return found


def ranges_between(
    start: Mapping[Partition, int],
    end: Mapping[Partition, int],
    earliest: Mapping[Partition, int],
    *,
    fails_on_loss: bool,
) -> list[tuple[str, OffsetRange]]:
    """The offsets of one batch; `earliest` are the present log start offsets. Raises `DataLost`."""
    found = []
    for row, last in sorted(end.items()):
        topic, partition = row
        first = start.get(row, 0)
        log_start = earliest.get(row)
        if fails_on_loss and first > last:
            raise DataLost(
                f"{topic}-{partition}: the start of the batch up to offset {last} is unknown, and a new query begins"
                f" at {first}; failOnDataLoss=false continues without this batch"
            )
        if fails_on_loss and first < last and (log_start is None or first < log_start):
            raise DataLost(
                f"{topic}-{partition}: offsets from {first} on are no longer in the log; failOnDataLoss=false continues"
                " after them"
            )
        if log_start is not None and max(first, log_start) < last:
            found.append((topic, OffsetRange(partition, max(first, log_start), last)))
    return found


def _share(size: float) -> int:
    """At least one offset of each partition: a slow partition must not starve."""
    return math.ceil(size) if size < 1 else math.floor(size)


def _check_partition(row: Partition, start: int, bounds: Bounds | None) -> None:
    topic, partition = row
    if bounds is None:
        raise DataLost(f"{topic}-{partition} was deleted; failOnDataLoss=false continues without it")
    if bounds.end < start:
        raise DataLost(
            f"{topic}-{partition}: the stream has read up to offset {start}, after the end {bounds.end} of the log: the"
            " topic may be recreated; failOnDataLoss=false continues from the end"
        )
