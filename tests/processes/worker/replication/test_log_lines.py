import pytest

from kafkad.core.partition_lines import Level, PartitionEvent
from kafkad.processes.worker.replication.log_lines import PAUSE_MS, ReplicationLog

EVENT = PartitionEvent(Level.WARNING, "ISR shrunk for", "replica 3 is not caught up")


def test_the_first_change_is_logged_at_once_and_those_of_the_next_second_together(
    caplog: pytest.LogCaptureFixture,
) -> None:
    replication_log = ReplicationLog()
    assert replication_log.next_deadline_ms is None
    for index in range(1_000):
        replication_log.lines.add(EVENT, f"t-{index}")
        replication_log.tick(1_000 + index)
    assert caplog.messages == ["ISR shrunk for t-0: replica 3 is not caught up"]
    assert replication_log.next_deadline_ms == 1_000 + PAUSE_MS
    replication_log.tick(1_000 + PAUSE_MS)
    assert caplog.messages[1:] == ["ISR shrunk for t-1, t-2, t-3 and 996 more partitions: replica 3 is not caught up"]
    assert replication_log.next_deadline_ms is None


def test_what_was_not_logged_yet_is_logged_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    replication_log = ReplicationLog()
    for index in range(2):
        replication_log.lines.add(EVENT, f"t-{index}")
        replication_log.tick(5_000)
    replication_log.write()
    assert [record.levelno for record in caplog.records] == [Level.WARNING, Level.WARNING]
