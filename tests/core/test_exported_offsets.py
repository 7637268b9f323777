"""The smallest offset of all exports, which is known only when all groups are."""

from uuid import UUID

from kafkad.core.cleanup import NO_EXPORT
from kafkad.core.exported_offsets import ExportedOffsets

ID, OTHER = UUID(int=1), UUID(int=2)


def test_nothing_is_known_before_every_partition_of_the_offsets_topic_was_heard_of() -> None:
    exported = ExportedOffsets()
    assert exported.is_complete(0)
    exported.update(0, [0, 2], [(ID, 0, 10)])
    assert not exported.is_complete(3)
    exported.update(1, [1], [])
    assert exported.is_complete(3)


def test_the_slowest_export_counts() -> None:
    exported = ExportedOffsets()
    exported.update(0, [0], [(ID, 0, 10), (ID, 0, 7), (ID, 1, 3)])
    exported.update(1, [1], [(ID, 0, 8)])
    assert [exported.of(ID, 0), exported.of(ID, 1)] == [7, 3]


def test_a_partition_or_a_new_topic_that_nobody_exports_has_no_offset() -> None:
    exported = ExportedOffsets()
    exported.update(0, [0], [(ID, 0, 10)])
    assert exported.of(ID, 1) == NO_EXPORT
    assert exported.of(OTHER, 0) == NO_EXPORT


def test_an_answer_replaces_the_one_before() -> None:
    exported = ExportedOffsets()
    exported.update(0, [0], [(ID, 0, 10)])
    exported.update(0, [0], [(ID, 0, 20)])
    assert exported.of(ID, 0) == 20


def test_what_a_worker_said_that_ended_is_not_known_any_more() -> None:
    exported = ExportedOffsets()
    exported.update(0, [0], [(ID, 0, 10)])
    exported.update(1, [1], [(ID, 0, 30)])
    exported.worker_ended(0)
    assert not exported.is_complete(2)
