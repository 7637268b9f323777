"""The text files of a log directory."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkad.core.log.recovery.checkpoints import (
    CheckpointCorrupt,
    format_offsets,
    format_partition_metadata,
    parse_offsets,
    parse_partition_metadata,
)
from kafkad.core.types import TopicPartition


def test_offsets_are_written_as_apache_kafka_writes_them() -> None:
    text = format_offsets({TopicPartition("orders", 0): 42, TopicPartition("a.b", 11): 0})
    assert text == "0\n2\norders 0 42\na.b 11 0\n"


@given(
    st.dictionaries(
        st.builds(TopicPartition, st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True), st.integers(0, 99)),
        st.integers(0, 2**63 - 1),
    )
)
def test_what_was_written_is_read_back(offsets: dict[TopicPartition, int]) -> None:
    assert parse_offsets(format_offsets(offsets)) == offsets


@pytest.mark.parametrize(
    "text",
    [
        f"0\n{'1' * 5_000}\n",
        f"0\n1\na 0 {2**63}\n",
        f"0\n1\na {2**31} 0\n",
        *["\n", "0\n", "1\n0\n", "0\nx\n"],
        *["0\n2\na 0 1\n", "0\n1\na 0\n", "0\n1\na 0 b\n", "0\n1\na 0 1 2\n", "\0\0\0"],
    ],
)
def test_a_damaged_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(CheckpointCorrupt):
        parse_offsets(text)


def test_a_file_that_apache_kafka_has_not_written_to_yet_has_no_entries() -> None:
    assert parse_offsets("") == {}


def test_what_is_said_of_a_damaged_checkpoint_fits_a_line() -> None:
    with pytest.raises(CheckpointCorrupt, match=r"expected version 0, found '.{240}'…$"):
        parse_offsets("\0" * 100_000)


def test_partition_metadata_holds_the_topic_id_as_kafka_prints_it() -> None:
    topic_id = UUID("c1f0c0c4-52d1-4c0e-9a3f-bf0b8c8e7a11")
    text = format_partition_metadata(topic_id)
    assert text == "version: 0\ntopic_id: wfDAxFLRTA6aP78LjI56EQ"
    assert parse_partition_metadata(text + "\n") == topic_id


@pytest.mark.parametrize(
    "text", ["", "version: 1\ntopic_id: AAAA", "version: 0\n", "version: 0\ntopic_id: ?", "version: 0\ntopic_id: AAAA"]
)
def test_damaged_partition_metadata_is_refused(text: str) -> None:
    with pytest.raises(CheckpointCorrupt):
        parse_partition_metadata(text)
