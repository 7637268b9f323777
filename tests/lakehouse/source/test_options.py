"""What a batch or a stream reads when nobody but the log directories is asked."""

import json
from pathlib import Path

import pytest
from pyspark.sql.types import BinaryType, StringType, StructType

from kafkad.core.log.recovery.checkpoints import HIGH_WATERMARKS
from kafkad.core.log.recovery.checkpoints import format_offsets as as_checkpoint
from kafkad.core.types import TopicPartition
from kafkad_lakehouse.export.problems import DataLost, ExportFailed
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.reading.shared_client import SharedClient
from kafkad_lakehouse.export.reading.source import read_range
from kafkad_lakehouse.source.default_source import DefaultSource
from kafkad_lakehouse.source.errors import IllegalArgumentException
from kafkad_lakehouse.source.offsets import Spelled
from kafkad_lakehouse.source.options import ReadOptions, plan_read
from kafkad_lakehouse.source.stream import TopicStreamReader
from kafkad_lakehouse.source.tasks import TopicRange
from tests.lakehouse.export.reading.test_decoding import marker, written
from tests.lakehouse.export.reading.test_log_directories import partition, plain


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`t-0` has offsets 0 to 6, from 4 on in an open transaction; `t-1`, 0 to 2; and there is an internal topic."""
    folder = tmp_path / "data %20#?"
    log = (plain(0), written(1, 7), written(2, 8), marker(3, 7), written(4, 7), plain(5), marker(6, 8))
    partition(folder, "t-0", *log)
    partition(folder, "t-1", *map(plain, range(3)))
    partition(folder, "__consumer_offsets-0", plain(0))
    ends = {("t", 0): 7, ("t", 1): 3, ("__consumer_offsets", 0): 1}
    (folder / HIGH_WATERMARKS).write_text(as_checkpoint({TopicPartition(*row): end for row, end in ends.items()}))
    return folder


def planned(folder: Path, **options: str) -> list[tuple[str, OffsetRange]]:
    named = options if {"subscribePattern", "assign"} & options.keys() else {"subscribe": "t", **options}
    return [(each.topic, piece) for each, piece in plan_read(ReadOptions.parse({"path": str(folder), **named}))]


BOTH = [("t", OffsetRange(0, 0, 4)), ("t", OffsetRange(1, 0, 3))]


def test_a_batch_goes_to_the_checkpoint_and_to_the_first_open_transaction(folder: Path) -> None:
    assert planned(folder) == BOTH
    uncommitted = planned(folder, **{"kafka.isolation.level": "read_uncommitted"})
    assert uncommitted[0] == ("t", OffsetRange(0, 0, 7))
    assert planned(folder, assign=json.dumps({"t": [1]})) == BOTH[1:]
    assert planned(folder, subscribePattern=" .* ", startingOffsets=" Earliest ") == BOTH
    ends = json.dumps({"t": {"0": 2, "1": -1}})
    assert planned(folder, startingOffsets=json.dumps({"t": {"0": 1, "1": -2}}), endingOffsets=ends) == [
        ("t", OffsetRange(0, 1, 2)),
        BOTH[1],
    ]
    assert planned(folder, assign=json.dumps({"t": [1, 1]})) == BOTH[1:], "once"


def test_what_was_planned_is_read_without_a_broker(folder: Path) -> None:
    ((source, offset_range),) = plan_read(
        ReadOptions.parse({"path": f"{folder.parent},{folder}/", "assign": json.dumps({"t": [1]})})
    )
    assert source.bootstrap is None
    batches = read_range(source, offset_range, SharedClient())
    assert [offset for each in batches for offset in each.column("offset").to_pylist()] == [0, 1, 2]


def test_a_stream_begins_and_goes_on_by_the_checkpoint(folder: Path) -> None:
    options = ReadOptions.parse({"path": str(folder), "subscribe": "t", "startingOffsets": "earliest"}, is_stream=True)
    stream = TopicStreamReader(options, ["offset"])
    begun = stream.initialOffset()
    assert begun == {"t": {"0": 0, "1": 0}}
    end = stream.latestOffset(begun, stream.getDefaultReadLimit())
    assert stream.reportLatestOffset() == {"t": {"0": 4, "1": 3}}
    assert stream.latestOffset(end, stream.getDefaultReadLimit()) == end, "nothing new"
    assert ranges(stream, begun, end) == [piece for _, piece in BOTH]


def test_a_first_batch_is_repeated_from_where_the_query_began(folder: Path) -> None:
    """Also in another process, for which the latest offsets are others."""

    def ends_at(offset: int) -> None:
        rows = {TopicPartition("t", 0): 7, TopicPartition("t", 1): offset}
        (folder / HIGH_WATERMARKS).write_text(as_checkpoint(rows))

    options = ReadOptions.parse({"path": str(folder), "subscribe": "t"}, is_stream=True)
    ends_at(1)
    first, again = (TopicStreamReader(options, ["offset"]) for _ in range(2))
    begun = first.initialOffset()
    ends_at(2)
    end = first.latestOffset(begun, first.getDefaultReadLimit())
    assert ranges(first, first.initialOffset(), end) == [OffsetRange(1, 1, 2)]
    ends_at(3)
    assert again.initialOffset() == {"t": {"0": 4, "1": 3}}
    assert ranges(again, again.initialOffset(), end) == [OffsetRange(1, 1, 2)]
    following = again.latestOffset(end, again.getDefaultReadLimit())
    assert following == {"t": {"0": 4, "1": 3}}
    assert ranges(again, end, following) == [OffsetRange(1, 2, 3)]


def ranges(stream: TopicStreamReader, start: Spelled, end: Spelled) -> list[OffsetRange]:
    return [each.offset_range for each in stream.partitions(start, end) if isinstance(each, TopicRange)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingTimestamp": "0"}, "a broker is required"),
        ({"assign": json.dumps({"t": [2]})}, "no partition t-2 exists"),
        ({"assign": json.dumps({"other": [0]})}, "no partition of topic 'other'"),
        ({"path": "/nowhere"}, "/nowhere is not a directory"),
        ({"path": ""}, "kafka.bootstrap.servers is required, or path"),
    ],
)
def test_what_log_directories_do_not_say_is_refused(folder: Path, options: dict[str, str], said: str) -> None:
    with pytest.raises(ExportFailed, match=said):
        planned(folder, **options)


def test_what_is_beyond_the_checkpoint_is_data_loss(folder: Path) -> None:
    ends = json.dumps({"t": {"0": 5, "1": 3}})
    with pytest.raises(DataLost, match="failOnDataLoss=false"):
        planned(folder, endingOffsets=ends)
    assert planned(folder, endingOffsets=ends, failOnDataLoss="false") == BOTH


def test_a_batch_of_a_stream_waits_for_the_fewest_offsets_but_not_for_ever(folder: Path) -> None:
    requested = {"path": str(folder), "subscribe": "t", "startingOffsets": "earliest", "minOffsetsPerTrigger": "8"}
    begun, end = {"t": {"0": 0, "1": 0}}, {"t": {"0": 4, "1": 3}}
    for delay, second in (("1 h", begun), ("0ms", end)):
        stream = TopicStreamReader(
            ReadOptions.parse({**requested, "maxTriggerDelay": delay}, is_stream=True), ["offset"]
        )
        assert stream.latestOffset(begun, stream.getDefaultReadLimit()) == end, "the first one"
        assert stream.latestOffset(begun, stream.getDefaultReadLimit()) == second
        stream.prepareForTriggerAvailableNow()
        assert stream.latestOffset(begun, stream.getDefaultReadLimit()) == end


def test_a_task_has_so_many_offsets_at_most(folder: Path) -> None:
    assert planned(folder, maxRecordsPerPartition="2") == [
        *(("t", OffsetRange(0, at, at + 2)) for at in (0, 2)),
        *(("t", OffsetRange(1, *bounds)) for bounds in ((0, 1), (1, 3))),
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"assign": json.dumps({"t": 0})}, "assign: expected a list of partitions of 't'"),
        ({"startingOffsets": json.dumps({"t": 0})}, "startingOffsets has no number for t-0"),
        ({"endingOffsets": json.dumps({"t": {"0": 1}})}, "endingOffsets has no number for t-1"),
        ({"assign": json.dumps({"t": []})}, "assign: expected topics with partitions"),
        ({"subscribe": " ,"}, "expected a topic, found none"),
        ({"startingOffsets": json.dumps({"t": {"0": 1, "1": 1, "2": 1}})}, "startingOffsets: t-2 is not selected"),
        ({"startingOffsets": json.dumps({"t": {"0": 1, "1": -3}})}, "expected an offset, -1 or -2, found -3"),
        ({"startingOffsets": "latest"}, "startingOffsets of a batch can't be latest"),
        ({"startingOffsets": json.dumps({"t": {"0": 1, "1": -1}})}, "startingOffsets of a batch can't be latest"),
        ({"endingOffsets": json.dumps({"t": {"0": -2, "1": 1}})}, "endingOffsets of a batch can't be earliest"),
        (
            {
                "startingOffsets": json.dumps({"t": {"0": 3, "1": 0}}),
                "endingOffsets": json.dumps({"t": {"0": 2, "1": 1}}),
            },
            r"t-0: startingOffsets \(3\) is after endingOffsets \(2\)",
        ),
        ({"kafka.isolation.level": "READ_UNCOMMITTED"}, "isolation.level: expected read_committed or read_uncommitted"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss: expected true or false, found 'no'"),
        ({"minPartitions": "0"}, "minPartitions: expected a number from 1 on"),
        ({"endingOffsets": json.dumps({"t": {"0": 1 << 63, "1": 1}})}, "endingOffsets has no number for t-0"),
        ({"startingTable": "/t"}, "startingtable is no option of batches"),
        ({"startingTimestamp": "-2"}, "startingTimestamp: expected milliseconds since 1970, found a negative time"),
        ({"endingOffsetsByTimestamp": json.dumps({"t": {"0": 1, "1": -1}})}, "endingTimestamp: expected milliseconds"),
        ({"startingOffsetsByTimestampStrategy": "lates"}, "Strategy: expected error or latest"),
        ({"kafka.auto.offset.reset": "latest"}, "kafka.auto.offset.reset is not supported: startingOffsets"),
    ],
)
def test_what_can_not_be_meant_is_one_sentence(folder: Path, options: dict[str, str], said: str) -> None:
    with pytest.raises(IllegalArgumentException, match=said):
        planned(folder, **options)


def test_a_batch_has_the_options_of_triggers_without_effect(folder: Path) -> None:
    """As in Spark's Kafka source, so that a batch and a stream can share their options."""
    ignored = {"maxOffsetsPerTrigger": "1", "minOffsetsPerTrigger": "9", "maxTriggerDelay": "soon"}
    assert planned(folder, **ignored) == planned(folder)


def test_a_delay_is_spelled_as_sparks() -> None:
    requested = {"path": "/", "subscribe": "t"}
    for text, seconds in (("1500", 1.5), ("2s", 2), ("15m", 900), ("1 min", 60), ("1h", 3_600)):
        assert ReadOptions.parse({**requested, "maxTriggerDelay": text}, is_stream=True).max_delay_s == seconds
    for name in ("minOffsetsPerTrigger", "maxOffsetsPerTrigger"):
        with pytest.raises(ExportFailed, match=f"{name}: expected a number from 1 on, found '0'"):
            ReadOptions.parse({**requested, name: "0"}, is_stream=True)
    with pytest.raises(ExportFailed, match=r"minOffsetsPerTrigger \(2\) is more than maxOffsetsPerTrigger \(1\)"):
        ReadOptions.parse({**requested, "minOffsetsPerTrigger": "2", "maxOffsetsPerTrigger": "1"}, is_stream=True)
    with pytest.raises(ExportFailed, match="maxTriggerDelay: expected a time such as 15m, found 'soon'"):
        ReadOptions.parse({**requested, "maxTriggerDelay": "soon"}, is_stream=True)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (StructType().add("vaule", BinaryType()), "no column 'vaule' exists, only key, value"),
        (StructType().add("value", StringType()), "the column value is binary, not string"),
    ],
)
def test_a_schema_with_another_column_is_refused(folder: Path, schema: StructType, said: str) -> None:
    source = DefaultSource({"path": str(folder), "subscribe": "t"})
    with pytest.raises(IllegalArgumentException, match=said):
        source.reader(schema)
    with pytest.raises(IllegalArgumentException, match=said):
        source.streamReader(schema).initialOffset()
