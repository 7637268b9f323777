from uuid import UUID

import pytest

from kafkad.core.controller.startup.reconciliation import (
    AdoptedTopic,
    FoundDirectory,
    ReconciledTopic,
    StrayDirectory,
    parse_directory,
    reconcile,
)
from kafkad.core.types import TopicPartition

ID, OTHER = UUID(int=1), UUID(int=2)
KNOWN = {"t": ReconciledTopic(ID, 2, frozenset({0, 1}))}


def found(name: str, topic_id: UUID | None = ID, log_dir: int = 0) -> FoundDirectory:
    return FoundDirectory(log_dir=log_dir, name=name, topic_id=topic_id)


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("t-0", TopicPartition("t", 0)),
        ("a-b.c_d-12", TopicPartition("a-b.c_d", 12)),
        ("my-delete-0", TopicPartition("my-delete", 0)),
        ("t", None),
        ("-1", None),
        ("t-", None),
        ("t-x", None),
        ("lost+found", None),
        ("t-00", None),
        ("t-²", None),
        ("a b-0", None),
        ("..-0", None),
        ("\udcff-0", None),
        ("t-2147483647", TopicPartition("t", 2**31 - 1)),
        ("t-2147483648", None),
    ],
)
def test_directory_names_are_parsed(name: str, partition: TopicPartition | None) -> None:
    assert parse_directory(name) == partition


def test_partitions_are_located_by_id_or_without_one_and_the_rest_is_missing() -> None:
    result = reconcile(KNOWN, {}, [found("t-1", None, log_dir=3)])
    assert result.located == {TopicPartition("t", 1): 3}
    assert result.missing == [TopicPartition("t", 0)]


def test_a_directory_of_another_life_of_the_topic_is_stray() -> None:
    directory = found("t-0", OTHER)
    result = reconcile(KNOWN, {}, [directory])
    assert result.stray == [StrayDirectory(directory, ID)]
    assert TopicPartition("t", 0) in result.missing


def test_a_topic_that_only_the_disk_knows_is_adopted_with_its_id() -> None:
    result = reconcile({}, {}, [found("t-2", None, 0), found("t-0", OTHER, 1)])
    assert result.adopted == [AdoptedTopic("t", OTHER, 3)]
    assert result.located == {TopicPartition("t", 2): 0, TopicPartition("t", 0): 1}


@pytest.mark.parametrize(
    ("name", "topic_id"),
    [("t-10002", None), ("t-99999999", ID), ("unknown-99999999", None), ("unknown-99999999", OTHER)],
)
def test_a_folder_that_would_make_partitions_out_of_nothing_is_set_aside(name: str, topic_id: UUID | None) -> None:
    directory = found(name, topic_id)
    result = reconcile(KNOWN, {}, [directory, found("t-0"), found("t-1")])
    assert [stray.directory for stray in result.stray] == [directory]
    assert result.located.keys() == {TopicPartition("t", 0), TopicPartition("t", 1)}
    assert result.adopted == []


def test_a_partition_of_the_topic_that_the_store_does_not_know_yet_is_located() -> None:
    assert TopicPartition("t", 10_001) in reconcile(KNOWN, {}, [found("t-10001")]).located


def test_of_two_lives_of_an_unknown_topic_one_is_adopted() -> None:
    other = found("t-1", OTHER)
    result = reconcile({}, {}, [found("t-0", ID), other])
    assert result.adopted == [AdoptedTopic("t", ID, 1)]
    assert result.stray == [StrayDirectory(other, ID)]


@pytest.mark.parametrize(("recorded", "on_disk"), [(ID, ID), (ID, None), (None, ID), (None, None)])
def test_directories_of_a_recorded_deletion_are_deleted(recorded: UUID | None, on_disk: UUID | None) -> None:
    directory = found("gone-1", on_disk)
    result = reconcile({}, {"gone": recorded}, [directory])
    assert result.deleting == [(directory, "gone", 1)]
    assert not result.adopted


def test_another_topic_under_the_name_of_a_deletion_is_set_aside() -> None:
    directory = found("gone-1", OTHER)
    assert reconcile({}, {"gone": ID}, [directory]).stray == [StrayDirectory(directory, ID)]


def test_what_is_not_a_partition_of_a_topic_is_left_alone() -> None:
    names = ["__cluster_metadata-0", "lost+found", "t-0.1234-stray", "t-0.1234-future", "plain"]
    result = reconcile({}, {}, [found(name) for name in names])
    assert (result.adopted, result.stray, result.leftovers, result.deleting) == ([], [], [], [])


def test_directories_renamed_for_deletion_are_leftovers() -> None:
    directory = found("t-0.a1b2c3-delete")
    assert reconcile(KNOWN, {}, [directory]).leftovers == [directory]


def test_a_partition_in_two_directories_is_for_people_to_decide() -> None:
    result = reconcile(KNOWN, {}, [found("t-0", log_dir=0), found("t-0", log_dir=1)])
    assert result.duplicates == [(TopicPartition("t", 0), 0, 1)]


@pytest.mark.parametrize("state", ["future", "stray"])
def test_directories_that_were_set_aside_stay_and_are_listed(state: str) -> None:
    directory = found(f"t-0.{'a' * 32}-{state}")
    result = reconcile(KNOWN, {"t": None}, [directory])
    assert result.set_aside == [directory]
    assert (result.stray, result.leftovers, result.deleting, result.located) == ([], [], [], {})
