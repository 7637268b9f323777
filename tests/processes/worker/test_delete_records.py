"""DeleteRecords in the worker waits for the slowest replica, its deadline, or the loss of the partition."""

from array import array

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.metrics.catalogue import PURGATORY_DELETE_RECORDS
from kafkad.processes.worker.delete_records import PendingDeleteRecords
from kafkad.wire.processes.descriptors import DeletedRecords, DeleteRecordsRequest, unpack_control

NETWORK = ProcessKey("network", 0)
NOW_MS = 10_000
SHORT_ID = 7


class Replicas:
    """Slots whose owner deletes at once, with other replicas that follow when the test says so."""

    def __init__(self, *slots: int) -> None:
        self.low_watermarks: dict[int, int | KafkaError] = dict.fromkeys(slots, 0)
        self.sent: list[tuple[ProcessKey, DeletedRecords]] = []
        self.block = memoryview(array("Q", [0] * 4096))
        self.pending_deletes = PendingDeleteRecords(
            now_ms=NOW_MS, block=self.block, progress=self, delete=self.delete, sender=self
        )

    def low_watermark_of(self, slot: int) -> int:
        low_watermark = self.low_watermarks[slot]
        if isinstance(low_watermark, KafkaError):
            raise low_watermark
        return low_watermark

    def delete(self, slot: int, short_id: int, offset: int) -> tuple[ErrorCode, int]:
        if slot not in self.low_watermarks or short_id != SHORT_ID:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        return ErrorCode.NONE, offset

    def send(self, peer: ProcessKey, frame: bytes, *, wakes: bool = True) -> bool:
        message = unpack_control(frame)
        assert isinstance(message, DeletedRecords)
        self.sent.append((peer, message))
        return True

    def ask(self, *rows: tuple[int, int, int]) -> None:
        self.pending_deletes.start(NETWORK, DeleteRecordsRequest(5, NOW_MS + 1000, list(rows)))

    def reach(self, slot: int, low_watermark: int | KafkaError) -> None:
        self.low_watermarks[slot] = low_watermark
        self.pending_deletes.progressed(slot)

    @property
    def waiting(self) -> int:
        return self.block[PURGATORY_DELETE_RECORDS]


def test_answer_waits_for_the_last_replica_of_each_partition() -> None:
    replicas = Replicas(1, 2)
    replicas.ask((1, SHORT_ID, 10), (2, SHORT_ID, 20))
    replicas.reach(1, 10)
    replicas.reach(2, 19)
    assert (replicas.sent, replicas.waiting) == ([], 1)
    replicas.reach(2, 21)
    assert replicas.sent == [(NETWORK, DeletedRecords(5, [(0, 10), (0, 21)]))]
    assert replicas.waiting == 0


def test_nothing_waits_when_all_replicas_are_there() -> None:
    replicas = Replicas(1)
    replicas.low_watermarks[1] = 10
    replicas.ask((1, SHORT_ID, 10))
    assert replicas.sent == [(NETWORK, DeletedRecords(5, [(0, 10)]))]


def test_replica_that_does_not_come_is_a_timeout_for_its_partition_only() -> None:
    replicas = Replicas(1, 2)
    replicas.ask((1, SHORT_ID, 10), (2, SHORT_ID, 20))
    replicas.reach(1, 10)
    replicas.reach(2, 7)
    replicas.pending_deletes.expire(NOW_MS + 999)
    assert replicas.sent == []
    replicas.pending_deletes.expire(NOW_MS + 1001)
    # The low watermark is that of the beginning, as from Apache Kafka.
    assert replicas.sent == [(NETWORK, DeletedRecords(5, [(0, 10), (ErrorCode.REQUEST_TIMED_OUT, 0)]))]
    assert replicas.waiting == 0


def test_what_could_not_be_deleted_is_not_waited_for() -> None:
    replicas = Replicas(1)
    replicas.ask((9, SHORT_ID, 10), (1, SHORT_ID + 1, 10))
    lost = (int(ErrorCode.NOT_LEADER_OR_FOLLOWER), -1)
    assert replicas.sent == [(NETWORK, DeletedRecords(5, [lost, lost]))]


def test_lost_partition_ends_the_waiting() -> None:
    replicas = Replicas(1)
    replicas.ask((1, SHORT_ID, 10))
    replicas.reach(1, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert replicas.sent == [(NETWORK, DeletedRecords(5, [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]))]


def test_answer_of_a_dead_network_process_does_not_reach_its_successor() -> None:
    replicas = Replicas(1)
    replicas.ask((1, SHORT_ID, 10))
    replicas.pending_deletes.network_lost(NETWORK)
    replicas.reach(1, 10)
    assert replicas.sent == []
    replicas.ask((1, SHORT_ID, 10))
    assert len(replicas.sent) == 1
