"""What a stream has read, and what its next batch reads: offsets of partitions, as Spark keeps them. Pure.

They are spelled as those of Spark's Kafka source: `{"orders": {"0": 17}}`. The end of a query's first batch also says
where it begins, as Spark keeps only ends: it would ask once more when the batch is repeated, and be told another place.
It is said in the name of a topic that can't be and has no partitions, so that Spark's Kafka source reads the same.
"""

import json
import math
from collections.abc import Mapping

from kafkad.export.problems import DataLost
from kafkad.export.ranges import Bounds, OffsetRange

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


def with_beginning(end: Spelled, begun: Spelled) -> Spelled:
    """The end of a batch that also says where it begins."""
    return {**end, f"{_BEGUN}{json.dumps(begun)}": {}}


def beginning(end: Spelled) -> Spelled | None:
    """Where the batch with this end begins, if it is said."""
    for name in end:
        if name.startswith(_BEGUN):
            found: Spelled = json.loads(name.removeprefix(_BEGUN))
            return found
    return None


def next_end(
    start: Mapping[Partition, int], bounds: Mapping[Partition, Bounds], most: int | None, *, fails_on_loss: bool
) -> Offsets:
    """Where a batch ends that begins at `start`, with about `most` offsets divided in the ratio of what there is.

    A partition that `start` does not have begins where its log does. Raises `DataLost` for one that is gone, or whose
    log has become shorter; where that is no failure, the former is left out, and the latter read on from its end.
    """
    if fails_on_loss:
        for row in start:
            _check_is_there(row, start[row], bounds.get(row))
    begins = {row: min(start.get(row, each.earliest), each.end) for row, each in bounds.items()}
    sizes = {row: each.end - begins[row] for row, each in bounds.items()}
    total = sum(sizes.values())
    if most is None or total <= most:
        return {row: each.end for row, each in bounds.items()}
    return {row: min(bounds[row].end, begins[row] + _share(most * sizes[row] / total)) for row in bounds}


def up_to(
    bounds: Mapping[Partition, Bounds], target: Mapping[Partition, int], start: Mapping[Partition, int]
) -> dict[Partition, Bounds]:
    """The logs as if nothing had come after `target`, nor any partition."""
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
    """The offsets of one batch; `earliest` is where the logs begin now. Raises `DataLost`."""
    found = []
    for row, last in sorted(end.items()):
        topic, partition = row
        first = start.get(row, 0)
        log_start = earliest.get(row)
        if fails_on_loss and first > last:
            raise DataLost(
                f"{topic}-{partition}: where the batch up to offset {last} begins is not known, and a query that begins"
                f" now begins at {first}; failOnDataLoss=false goes on without this batch"
            )
        if fails_on_loss and first < last and (log_start is None or first < log_start):
            raise DataLost(
                f"{topic}-{partition}: offsets from {first} on are no longer in the log; failOnDataLoss=false goes on"
                " with what is there"
            )
        if log_start is not None and max(first, log_start) < last:
            found.append((topic, OffsetRange(partition, max(first, log_start), last)))
    return found


def _share(size: float) -> int:
    """Something of each partition: a slow one must not wait for ever."""
    return math.ceil(size) if size < 1 else math.floor(size)


def _check_is_there(row: Partition, start: int, bounds: Bounds | None) -> None:
    topic, partition = row
    if bounds is None:
        raise DataLost(f"{topic}-{partition} is no longer there; failOnDataLoss=false goes on without it")
    if bounds.end < start:
        raise DataLost(
            f"{topic}-{partition}: the stream has read up to offset {start}, the log ends at {bounds.end}: was the"
            " topic made again? failOnDataLoss=false goes on from there"
        )
