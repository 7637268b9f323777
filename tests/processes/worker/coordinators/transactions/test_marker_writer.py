"""Markers of transactions in very many partitions are written in turns."""

from array import array

from kafkad.core.errors import ErrorCode
from kafkad.processes.worker.coordinators.shards import CoordinatorShards
from kafkad.processes.worker.coordinators.transactions.marker_writer import AT_A_TIME, TxnMarkerWriter
from kafkad.processes.worker.outbox import Outbox
from kafkad.wire.processes.coordinator_messages import TxnMarkerRequest, TxnMarkerWritten
from tests.processes.sent_frames import SentFrames


def _writer() -> TxnMarkerWriter:
    """Without partitions."""
    outbox = Outbox({})
    shards = CoordinatorShards({}, now_ms=0, block=memoryview(array("Q", [0])), sender=SentFrames(), outbox=outbox)
    return TxnMarkerWriter({}, outbox, shards)


def _order(marker_id: int, partitions: int) -> TxnMarkerRequest:
    return TxnMarkerRequest(marker_id, 1, 0, 0, True, 2, [(slot, 0) for slot in range(partitions)])


def test_transaction_in_very_many_partitions_lets_others_end_before_it() -> None:
    """One with ten thousand stopped its worker for seconds."""
    markers = _writer()
    answers: list[TxnMarkerWritten] = []
    markers.write(_order(1, 3 * AT_A_TIME + 1), answers.append)
    markers.write(_order(2, 1), answers.append)
    for _ in range(2):
        markers.write_queued(0)
        markers.respond_to_written()
    assert [each.marker_id for each in answers] == [2]
    assert markers.is_busy
    while markers.is_busy:
        markers.write_queued(0)
    markers.respond_to_written()
    assert answers[1] == TxnMarkerWritten(1, [ErrorCode.NOT_LEADER_OR_FOLLOWER] * (3 * AT_A_TIME + 1))


def test_order_without_partitions_is_answered() -> None:
    markers = _writer()
    answers: list[TxnMarkerWritten] = []
    markers.write(_order(1, 0), answers.append)
    markers.write_queued(0)
    markers.respond_to_written()
    assert answers == [TxnMarkerWritten(1, [])]
    assert not markers.is_busy
