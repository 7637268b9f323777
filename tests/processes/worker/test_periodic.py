"""The clock that forgets producers runs only as long as there are some."""

import pytest

from kafkad.core.log.partition_log import PartitionLog
from kafkad.processes.worker.outbox import Outbox
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.processes.worker.periodic import Periodic
from tests.core.log.batches import PARTITION, append, batch, load
from tests.core.log.fake_store import FakeStore

CHECK_MS = 1000


@pytest.fixture
def log() -> PartitionLog:
    return load(FakeStore())


@pytest.fixture
def owned(log: PartitionLog) -> OwnedPartition:
    owned = OwnedPartition(PARTITION, 0, b"i" * 16, 0, 0, 0)
    owned.log = log
    return owned


@pytest.fixture
def periodic(owned: OwnedPartition) -> Periodic:
    return Periodic(
        {0: owned},
        now_ms=0,
        expiration_check_ms=CHECK_MS,
        flush_check_ms=CHECK_MS,
        first_flush_ms=CHECK_MS,
        outbox=Outbox({0: owned}),
    )


def test_a_log_without_producers_needs_no_clock(periodic: Periodic, owned: OwnedPartition, log: PartitionLog) -> None:
    append(log, batch(1))
    periodic.partition_changed(owned)
    assert periodic.next_deadline_ms is None


def test_a_producer_is_forgotten_in_time_and_then_nothing_is_waited_for(
    periodic: Periodic, owned: OwnedPartition, log: PartitionLog
) -> None:
    append(log, batch(1, producer_id=7, sequence=0, timestamp=1))
    periodic.partition_changed(owned)
    assert periodic.next_deadline_ms == CHECK_MS
    periodic.tick(CHECK_MS)
    assert not len(log.producers)
    assert periodic.next_deadline_ms is None


def test_a_question_without_an_answer_is_forgotten_in_time_too(
    periodic: Periodic, owned: OwnedPartition, log: PartitionLog
) -> None:
    log.producers.begin_verification(7, 0, 0, 1, supports_epoch_bump=True)
    periodic.partition_changed(owned)
    assert periodic.next_deadline_ms == CHECK_MS
    periodic.tick(CHECK_MS)
    assert not log.producers.verifications.by_producer
    assert periodic.next_deadline_ms is None
