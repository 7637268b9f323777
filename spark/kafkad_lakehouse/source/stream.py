"""`spark.readStream.format("kafkad")`: the batches of a query, without gaps between them.

Spark stores the end of each batch in the query's checkpoint. Without a checkpoint the query begins at
`startingOffsets`, or at the end of the table `startingTable`. The reader is one object in a process of the driver;
`read` runs in the workers.
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

from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.ranges import Bounds
from kafkad_lakehouse.source.errors import in_one_line
from kafkad_lakehouse.source.offsets import (
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
from kafkad_lakehouse.source.options import ReadOptions, connected, divide_read, load_topics
from kafkad_lakehouse.source.query_bounds import STREAM_START, offsets_at_side
from kafkad_lakehouse.source.table_ends import ends_of_table
from kafkad_lakehouse.source.tasks import TopicRange, read_piece

_PAUSE_S = 0.1


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """All methods may raise `ExportFailed`, which ends the query. It can be restarted from its checkpoint."""

    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = list(columns)
        self._requested_s = 0.0
        self._begun_s = -math.inf
        """The time of the start of the last batch."""
        self._initial: Spelled | None = None
        """The start of the query, which Spark requests for each attempt of the first batch."""
        self._known: Offsets = {}
        """The newest end offsets."""
        self._target: Offsets | None = None
        """The end of a query with `Trigger.AvailableNow`."""

    def initialOffset(self) -> Spelled:
        if self._initial is None:
            with in_one_line():
                self._initial = self._beginning()
        return self._initial

    def _beginning(self) -> Spelled:
        values = self._options.values
        with connected(self._options) as client:
            facts, rows = load_topics(client, self._options)
            start = offsets_at_side(client, values, STREAM_START, rows, facts)
        if "startingtable" in values:
            of_table = ends_of_table(values["startingtable"], facts)
            start = {row: of_table.get(row, facts[row[0]].bounds[row[1]].earliest) for row in rows}
        return spelled(start)

    def getDefaultReadLimit(self) -> ReadLimit:
        max_offsets = self._options.max_offsets
        return ReadAllAvailable() if max_offsets is None else ReadMaxRows(max_offsets)

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
        max_offsets = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = next_end(begun, bounds, max_offsets, fails_on_loss=self._options.fails_on_loss)
        if self._is_delayed(begun, bounds):
            return start
        if start == self._initial:
            return with_beginning(spelled(end), start)
        # Only the end of the first batch has its start: without new records, later ends are equal offsets without it.
        return start if end == begun else spelled(end)

    def reportLatestOffset(self) -> Spelled | None:
        return spelled(self._known) if self._known else None

    def partitions(self, start: Spelled, end: Spelled) -> Sequence[InputPartition]:
        begun = beginning(end)
        with in_one_line(), connected(self._options) as client:
            facts, _ = load_topics(client, self._options)
            earliest = {
                (topic, partition): bounds.earliest
                for topic, each in facts.items()
                for partition, bounds in each.bounds.items()
            }
            offset_ranges = ranges_between(
                read_offsets(start if begun is None else begun),
                read_offsets(end),
                earliest,
                fails_on_loss=self._options.fails_on_loss,
            )
            planned = divide_read(client, self._options, offset_ranges, facts)
        return [TopicRange(source, each) for source, each in planned]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_piece(partition, self._columns)

    def _is_delayed(self, begun: Offsets, bounds: Mapping[Partition, Bounds]) -> bool:
        """Whether the next batch waits for more records; the first batch never waits."""
        new = sum(each.end - begun.get(row, each.earliest) for row, each in bounds.items())
        now_s = time.monotonic()
        is_early = now_s - self._begun_s < self._options.max_delay_s
        if self._target is None and new < self._options.min_offsets and is_early:
            return True
        self._begun_s = now_s
        return False

    def _bounds(self) -> dict[Partition, Bounds]:
        """The present bounds. Spark requests them without a pause while there are no new records, so this waits."""
        time.sleep(max(0.0, self._requested_s + _PAUSE_S - time.monotonic()))
        self._requested_s = time.monotonic()
        with connected(self._options) as client:
            facts, rows = load_topics(client, self._options)
        found = {(topic, partition): facts[topic].bounds[partition] for topic, partition in rows}
        self._known = {row: each.end for row, each in found.items()}
        return found


class RejectedStream(TopicStreamReader):
    """A stream with invalid options, which raises the error in each method: Spark 4.2 hides errors of the creation of a
    reader behind an error about a missing reader.
    """

    def __init__(self, error: ExportFailed) -> None:
        self._error = error

    def _reject(self, *_: Any, **__: Any) -> NoReturn:
        with in_one_line():
            raise self._error

    initialOffset = getDefaultReadLimit = prepareForTriggerAvailableNow = latestOffset = partitions = _reject
