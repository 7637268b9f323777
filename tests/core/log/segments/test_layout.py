"""File and directory names of a log."""

import pytest

from kafkad.core.log.segments.layout import (
    DirectoryName,
    SegmentFileName,
    directory_name,
    file_name,
    marked_directory_name,
    parse_directory_name,
    parse_file_name,
)
from kafkad.core.types import TopicPartition


def test_file_names_have_twenty_digits() -> None:
    assert file_name(42, ".log") == "00000000000000000042.log"
    assert file_name(42, ".index", ".swap") == "00000000000000000042.index.swap"


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("00000000000000000042.log", SegmentFileName(42, ".log", "")),
        ("00000000000000000042.timeindex.deleted", SegmentFileName(42, ".timeindex", ".deleted")),
        ("00000000000000000042.snapshot", SegmentFileName(42, ".snapshot", "")),
        ("42.log", None),
        ("09223372034707292160.log", SegmentFileName(2**63 - 2**31, ".log", "")),
        ("09223372034707292161.log", None),
        ("99999999999999999999.log", None),
        ("leader-epoch-checkpoint", None),
        ("00000000000000000042.log.backup", None),
    ],
)
def test_file_names_are_taken_apart(name: str, parsed: SegmentFileName | None) -> None:
    assert parse_file_name(name) == parsed


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("orders-0", DirectoryName(TopicPartition("orders", 0), "")),
        ("my-topic.v1-12", DirectoryName(TopicPartition("my-topic.v1", 12), "")),
        ("orders-3.0123abcd-delete", DirectoryName(TopicPartition("orders", 3), "delete")),
        ("orders-3.0123abcd-future", DirectoryName(TopicPartition("orders", 3), "future")),
        ("orders-3.0123abcd-stray", DirectoryName(TopicPartition("orders", 3), "stray")),
        ("orders", None),
        ("orders-", None),
        ("-1", None),
        ("orders-x", None),
        ("orders-delete", None),
    ],
)
def test_directory_names_are_taken_apart(name: str, parsed: DirectoryName | None) -> None:
    assert parse_directory_name(name) == parsed


def test_the_longest_topic_name_stays_legal_when_its_directory_leaves() -> None:
    partition = TopicPartition("t" * 249, 123)
    assert parse_directory_name(directory_name(partition)) == DirectoryName(partition, "")
    leaving = marked_directory_name(partition, "0" * 32, "delete")
    assert len(leaving) == 255
    parsed = parse_directory_name(leaving)
    assert parsed is not None
    assert (parsed.partition.partition, parsed.state) == (123, "delete")
