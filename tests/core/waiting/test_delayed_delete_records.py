"""DeleteRecords waits for the low watermark of each partition."""

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.waiting.delayed_partitions import DelayedDeleteRecords, DeleteRecordsPartition
from kafkad.core.waiting.purgatory import Purgatory


class Leader:
    def __init__(self, answers: dict[int, int | KafkaError]) -> None:
        self.answers = answers

    def low_watermark_of(self, slot: int) -> int:
        answer = self.answers[slot]
        if isinstance(answer, KafkaError):
            raise answer
        return answer


def waiting_deletion(
    leader: Leader, *partitions: DeleteRecordsPartition
) -> Purgatory[DelayedDeleteRecords[str], Leader]:
    purgatory: Purgatory[DelayedDeleteRecords[str], Leader] = Purgatory(view=leader, start_ms=0)
    deletion = DelayedDeleteRecords(request="r1", deadline_ms=1_000, partitions=partitions)
    assert not purgatory.try_complete_else_watch(deletion)
    return purgatory


def answers(deletion: DelayedDeleteRecords[str]) -> dict[int, tuple[ErrorCode, int]]:
    return {row.slot: (row.error_code, row.low_watermark) for row in deletion.partitions}


def test_deletion_is_done_when_the_low_watermark_is_there() -> None:
    leader = Leader({1: 0})
    purgatory = waiting_deletion(leader, DeleteRecordsPartition(1, 10))
    leader.answers[1] = 9
    assert purgatory.check_and_complete(1) == []
    leader.answers[1] = 12
    (deletion,) = purgatory.check_and_complete(1)
    assert answers(deletion) == {1: (ErrorCode.NONE, 12)}


def test_a_timeout_is_told_of_the_unsatisfied_partitions_only() -> None:
    leader = Leader({1: 10, 2: 0, 3: 0})
    refused = DeleteRecordsPartition(3, 10, ErrorCode.OFFSET_OUT_OF_RANGE)
    done, stuck = DeleteRecordsPartition(1, 10), DeleteRecordsPartition(2, 10)
    purgatory = waiting_deletion(leader, done, stuck, refused)
    (deletion,) = purgatory.expire(1_000)
    assert answers(deletion) == {
        1: (ErrorCode.NONE, 10),
        2: (ErrorCode.REQUEST_TIMED_OUT, 0),
        3: (ErrorCode.OFFSET_OUT_OF_RANGE, -1),
    }


def test_a_lost_leadership_ends_the_waiting_with_its_code() -> None:
    leader = Leader({1: 0})
    purgatory = waiting_deletion(leader, DeleteRecordsPartition(1, 10))
    leader.answers[1] = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    (deletion,) = purgatory.check_and_complete(1)
    assert answers(deletion) == {1: (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)}
