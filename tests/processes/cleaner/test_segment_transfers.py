"""Segments that somebody gets before they go: which, how often, and what if it does not work."""

import logging
import select
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from bench.brokers.processes import WITHIN_S
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.cleanup import LogSummary, SealedSegment, SegmentSummary, TransferSegments
from kafkad.core.controller.image import Partition, Topic
from kafkad.core.partition_slot import PartitionSlot
from kafkad.processes.cleaner.planning import PlannedTransfer
from kafkad.processes.cleaner.segment_transfers import SegmentTransfers
from kafkad.wire.processes.descriptors import CleanupOrdered, unpack_control

ID = UUID(int=7)
WORKER = ProcessKey("worker", 0)


class Archive:
    """A receiver, and a cleaner's hand-overs with the files of one partition."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "t-0"
        self.folder.mkdir()
        for base in (0, 10, 20, 30):
            (self.folder / f"{base:020d}.log").write_bytes(str(base).encode())
        self.topic_id = ID
        self.orders: list[CleanupOrdered] = []
        self.got: list[tuple[int, int, bytes]] = []
        self.fails_at: int | None = None
        self.may_continue = threading.Event()
        self.may_continue.set()
        self.segment_transfers = SegmentTransfers([str(folder)], self, self)

    def read(self, slot: int) -> PartitionSlot:
        return PartitionSlot(topic_id=self.topic_id.bytes)

    def send(self, peer: ProcessKey, frame: bytes, *, wakes: bool = True) -> bool:
        order = unpack_control(frame)
        assert peer == WORKER
        assert isinstance(order, CleanupOrdered)
        self.orders.append(order)
        return True

    def receive(self, segment: SealedSegment) -> None:
        assert self.may_continue.wait(WITHIN_S)
        assert (segment.topic, segment.topic_id, segment.partition) == ("t", ID, 0)
        if segment.first_offset == self.fails_at:
            raise OSError("the archive is full")
        self.got.append((segment.first_offset, segment.next_offset, segment.file.read()))

    def plan(self, *, up_to: int = 20, high_watermark: int = 40) -> None:
        row = Partition(
            index=0, slot=4, owner=0, log_dir=0, leader=1, leader_epoch=0, partition_epoch=0, replicas=(1,), isr=(1,)
        )
        topic = Topic(name="t", id=ID, partitions=(row,), configs={})
        segments = tuple(
            SegmentSummary(
                base_offset=base,
                size_bytes=len(str(base)),
                largest_timestamp_ms=0,
                last_modified_ms=0,
                is_active=base == 30,
            )
            for base in (0, 10, 20, 30)
        )
        log = LogSummary(
            topic="t",
            partition=0,
            log_start_offset=0,
            high_watermark=high_watermark,
            log_end_offset=40,
            segments=segments,
        )
        effect = TransferSegments(up_to_base_offset=up_to, receiver=self.receive, reason="old")
        self.segment_transfers.begin(PlannedTransfer(4, topic, row, log, effect))

    def run(self) -> None:
        """Until nothing is under way."""
        while self.segment_transfers._running:
            assert select.select([self.segment_transfers.doorbell], [], [], WITHIN_S)[0], "a receiver returns"
            self.segment_transfers.rung(0)


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    archive = Archive(tmp_path)
    yield archive
    archive.may_continue.set()
    archive.segment_transfers.close()


def test_each_segment_goes_after_somebody_has_got_it(archive: Archive) -> None:
    archive.plan()
    archive.run()
    assert archive.got == [(0, 10, b"0"), (10, 20, b"10"), (20, 30, b"20")]
    assert [(order.delete_up_to, order.log_end_offset, order.roll) for order in archive.orders] == [
        (0, 10, False),
        (10, 20, False),
        (20, 30, False),
    ]


def test_neither_the_active_segment_nor_what_is_not_committed_is_handed_over(archive: Archive) -> None:
    archive.plan(up_to=30, high_watermark=25)
    archive.run()
    assert [first for first, _, _ in archive.got] == [0, 10]


def test_segment_that_nobody_took_stays_and_comes_again(archive: Archive, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    archive.fails_at = 10
    for _ in range(3):
        archive.plan()
        archive.run()
    assert {order.delete_up_to for order in archive.orders} == {0}
    assert caplog.text.count("t-0: cannot transfer the segment at offset 10, it is kept and retried") == 1
    archive.fails_at = None
    archive.plan()
    archive.run()
    assert archive.orders[-1].delete_up_to == 20
    assert caplog.messages[-1] == "t-0: transferring segments works again"


def test_partition_whose_receiver_takes_its_time_is_not_handed_over_twice(archive: Archive) -> None:
    archive.may_continue.clear()
    archive.plan()
    archive.plan()
    archive.may_continue.set()
    archive.run()
    assert len(archive.got) == 3


def test_segment_of_another_topic_with_the_same_name_is_not_handed_over(archive: Archive) -> None:
    archive.topic_id = UUID(int=8)
    archive.plan()
    archive.run()
    assert not archive.got
    assert not archive.orders


def test_segment_that_is_gone_or_is_not_what_it_was_ends_the_round(archive: Archive) -> None:
    (archive.folder / f"{20:020d}.log").write_bytes(b"another")
    archive.plan()
    archive.run()
    assert [first for first, _, _ in archive.got] == [0, 10]
    (archive.folder / f"{0:020d}.log").unlink()
    archive.plan()
    archive.run()
    assert len(archive.got) == 2
