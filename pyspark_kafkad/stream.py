"""`spark.readStream.format("kafkad")`: the batches of a query follow each other without a gap.

Spark keeps where they end in the query's checkpoint. Without one the query begins at `startingOffsets`, or behind what
the table of `startingTable` has. It is one object in a process of the driver; `read` runs in the workers.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from kafkad.export.problems import ExportFailed
from kafkad.export.ranges import Bounds
from pyspark_kafkad.failing import in_one_line
from pyspark_kafkad.offsets import (
    Offsets,
    Partition,
    Spelled,
    beginning,
    next_end,
    ranges_between,
    read_offsets,
    spelled,
    up_to,
    with_beginning,
)
from pyspark_kafkad.options import ReadOptions, connected, divide_read, look_up
from pyspark_kafkad.pieces import TopicRange, read_piece
from pyspark_kafkad.places import STREAM_START, places
from pyspark_kafkad.table_ends import ends_of_table

_PAUSE_S = 0.1


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Every method may raise `ExportFailed`, which ends the query; it can be started again from its checkpoint."""

    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = list(columns)
        self._asked_s = 0.0
        self._begun_s = -math.inf
        """When the last batch was begun."""
        self._initial: Spelled | None = None
        """Where the query begins: Spark asks again for each attempt of its first batch."""
        self._known: Offsets = {}
        """The newest ends that are known."""
        self._target: Offsets | None = None
        """Where a query with `Trigger.AvailableNow` ends."""

    def initialOffset(self) -> Spelled:
        if self._initial is None:
            with in_one_line():
                self._initial = self._beginning()
        return self._initial

    def _beginning(self) -> Spelled:
        values = self._options.values
        with connected(self._options) as client:
            facts, rows = look_up(client, self._options)
            start = places(client, values, STREAM_START, rows, facts)
        if "startingtable" in values:
            of_table = ends_of_table(values["startingtable"], facts)
            start = {row: of_table.get(row, facts[row[0]].bounds[row[1]].earliest) for row in rows}
        return spelled(start)

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.most_offsets
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        with in_one_line():
            self._target = {row: each.end for row, each in self._bounds().items()}

    def latestOffset(self, start: Spelled, limit: ReadLimit) -> Spelled:
        with in_one_line():
            return self._latest(start, limit)

    def _latest(self, start: Spelled, limit: ReadLimit) -> Spelled:
        begun = read_offsets(start)
        bounds = self._bounds()
        if self._target is not None:
            bounds = up_to(bounds, self._target, begun)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = next_end(begun, bounds, most, fails_on_loss=self._options.fails_on_loss)
        if self._waits(begun, bounds):
            return start
        if start == self._initial:
            return with_beginning(spelled(end), start)
        # What says where the first batch began is no longer said by others: without anything new it is the same offset.
        return start if end == begun else spelled(end)

    def reportLatestOffset(self) -> Spelled | None:
        return spelled(self._known) if self._known else None

    def partitions(self, start: Spelled, end: Spelled) -> Sequence[InputPartition]:
        begun = beginning(end)
        with in_one_line(), connected(self._options) as client:
            facts, _ = look_up(client, self._options)
            earliest = {
                (topic, partition): bounds.earliest
                for topic, each in facts.items()
                for partition, bounds in each.bounds.items()
            }
            wanted = ranges_between(
                read_offsets(start if begun is None else begun),
                read_offsets(end),
                earliest,
                fails_on_loss=self._options.fails_on_loss,
            )
            planned = divide_read(client, self._options, wanted, facts)
        return [TopicRange(source, each) for source, each in planned]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_piece(partition, self._columns)

    def _waits(self, begun: Offsets, bounds: Mapping[Partition, Bounds]) -> bool:
        """Whether the next batch is left for later, as there is little for it; the first one never is."""
        new = sum(each.end - begun.get(row, each.earliest) for row, each in bounds.items())
        now_s = time.monotonic()
        is_early = now_s - self._begun_s < self._options.longest_delay_s
        if self._target is None and new < self._options.fewest_offsets and is_early:
            return True
        self._begun_s = now_s
        return False

    def _bounds(self) -> dict[Partition, Bounds]:
        """Spark asks without a pause while there is nothing new."""
        time.sleep(max(0.0, self._asked_s + _PAUSE_S - time.monotonic()))
        self._asked_s = time.monotonic()
        with connected(self._options) as client:
            facts, rows = look_up(client, self._options)
        found = {(topic, partition): facts[topic].bounds[partition] for topic, partition in rows}
        self._known = {row: each.end for row, each in found.items()}
        return found


class RefusedStream(TopicStreamReader):
    """Of wrong options. It raises when it is asked: of what a source raises before, Spark 4.2 only tells that there is
    no reader which it could stop.
    """

    def __init__(self, error: ExportFailed) -> None:
        self._error = error

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        with in_one_line():
            raise self._error

    initialOffset = getDefaultReadLimit = prepareForTriggerAvailableNow = latestOffset = partitions = _refuse
