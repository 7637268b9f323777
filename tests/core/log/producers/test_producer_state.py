import tracemalloc

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.producers.entry import Appended, Duplicate, ProducerEntry
from kafkad.core.log.producers.producer_state import ACCEPT, Accept, CompletedTransaction, EndMarker, ProducerStates
from kafkad.core.log.producers.verification import NO_GUARD
from kafkad.core.log.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, BatchHeader
from tests.amounts import amount

MAX = 2**31 - 1
DAY = 86_400_000


def batch(
    sequence: int,
    count: int = 1,
    *,
    epoch: int = 0,
    producer_id: int = 7,
    base_offset: int = 0,
    timestamp: int = 1000,
    attributes: int = 0,
) -> BatchHeader:
    return BatchHeader(
        base_offset=base_offset,
        batch_length=100,
        partition_leader_epoch=0,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        records_count=count,
    )


def states(*appended: BatchHeader) -> ProducerStates:
    """A partition to which these batches were appended one after the other."""
    producers = ProducerStates("orders-0", expiration_ms=DAY)
    offset = 0
    for header in appended:
        assert producers.check(header, guard_of(producers, header)) is ACCEPT
        producers.record_append(header, offset)
        offset += header.records_count
    return producers


def guard_of(producers: ProducerStates, header: BatchHeader, *, supports_epoch_bump: bool = False) -> int:
    """What the coordinator's good word is worth, for a transactional batch."""
    if not header.is_transactional:
        return NO_GUARD
    return producers.begin_verification(
        header.producer_id, header.producer_epoch, header.base_sequence, 0, supports_epoch_bump=supports_epoch_bump
    )


def refusal(producers: ProducerStates, header: BatchHeader, guard: int | None = NO_GUARD) -> ErrorCode:
    with pytest.raises(KafkaError, match="Producer 7 in orders-0") as caught:
        producers.check(header, guard)
    return caught.value.code


def test_an_unknown_producer_may_start_anywhere() -> None:
    assert states().check(batch(4711)) is ACCEPT


def test_a_batch_without_producer_id_is_not_remembered() -> None:
    producers = states(batch(-1, producer_id=-1))
    assert len(producers) == 0
    assert producers.check(batch(-1, producer_id=-1)) is ACCEPT


def test_the_next_sequence_is_accepted_and_a_gap_is_not() -> None:
    producers = states(batch(0, 5))
    assert producers.check(batch(5)) is ACCEPT
    assert refusal(producers, batch(6)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(producers, batch(4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_each_of_the_last_five_batches_is_recognised() -> None:
    producers = states(*(batch(2 * number, 2, timestamp=number) for number in range(6)))
    for number in range(1, 6):
        assert producers.check(batch(2 * number, 2)) == Duplicate(
            base_offset=2 * number, last_offset=2 * number + 1, timestamp=number
        )
    assert refusal(producers, batch(0, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_repetition_has_exactly_the_same_sequences() -> None:
    producers = states(batch(0, 5))
    assert refusal(producers, batch(0, 4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(producers, batch(1, 4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_to_zero_after_the_largest_int32() -> None:
    producers = states(batch(MAX - 1, 2))
    assert producers.check(batch(0)) is ACCEPT
    assert refusal(producers, batch(1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_across_the_wrap_is_recognised_and_continued() -> None:
    producers = states(batch(MAX, 3))
    assert producers.check(batch(MAX, 3)) == Duplicate(base_offset=0, last_offset=2, timestamp=1000)
    assert producers.check(batch(2)) is ACCEPT


def test_an_older_epoch_is_fenced_even_when_it_repeats() -> None:
    producers = states(batch(0, epoch=1))
    assert refusal(producers, batch(0, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(producers, batch(1, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_begins_at_sequence_zero_and_forgets_the_old_batches() -> None:
    producers = states(batch(0, 3))
    assert refusal(producers, batch(3, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    bumped = batch(0, 3, epoch=1)
    assert producers.check(bumped) is ACCEPT
    producers.record_append(bumped, 3)
    assert producers.check(bumped) == Duplicate(base_offset=3, last_offset=5, timestamp=1000)


def test_checking_changes_nothing() -> None:
    producers = states(batch(0))
    producers.check(batch(1, epoch=0))
    producers.check(batch(0, epoch=5))
    assert producers.check(batch(1)) is ACCEPT
    assert [entry.last_sequence for entry in producers.active()] == [0]


def test_producers_do_not_disturb_each_other() -> None:
    producers = states(batch(0), batch(0, producer_id=8), batch(1))
    assert producers.check(batch(1, producer_id=8)) is ACCEPT
    assert producers.check(batch(2)) is ACCEPT


def test_an_idle_producer_expires_and_may_start_anywhere_again() -> None:
    producers = states(batch(0, timestamp=1000))
    assert producers.remove_expired(1000 + DAY - 1) == 0
    assert refusal(producers, batch(9)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.remove_expired(1000 + DAY) == 1
    assert producers.check(batch(9)) is ACCEPT


def test_a_producer_with_an_open_transaction_does_not_expire() -> None:
    producers = states(batch(0, attributes=TRANSACTIONAL_FLAG))
    assert producers.remove_expired(10 * DAY) == 0


def test_a_plain_batch_inside_a_transaction_is_refused() -> None:
    producers = states(batch(0, attributes=TRANSACTIONAL_FLAG))
    assert refusal(producers, batch(1)) is ErrorCode.INVALID_TXN_STATE


def test_a_transaction_is_open_from_its_first_batch_to_its_marker() -> None:
    producers = states(
        batch(0, 4, producer_id=8),
        batch(0, 2, attributes=TRANSACTIONAL_FLAG),
        batch(0, 3, producer_id=9, attributes=TRANSACTIONAL_FLAG),
        batch(2, 1, attributes=TRANSACTIONAL_FLAG),
    )
    assert producers.transactions.first_open == 4
    control = batch(-1, epoch=1, base_offset=10, attributes=TRANSACTIONAL_FLAG | CONTROL_FLAG)
    marker = EndMarker(commit=False, coordinator_epoch=3, timestamp=2000)
    assert producers.replay(control, marker) == CompletedTransaction(
        producer_id=7, first_offset=4, last_offset=10, aborted=True
    )
    assert producers.transactions.first_open == 6
    entry = producers.get(7)
    assert entry is not None
    assert (entry.producer_epoch, entry.coordinator_epoch, entry.last_timestamp) == (1, 3, 2000)
    assert producers.check(batch(0, epoch=1)) is ACCEPT
    assert refusal(producers, batch(3, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_marker_of_the_same_epoch_keeps_the_batches() -> None:
    producers = states(batch(0, 2, attributes=TRANSACTIONAL_FLAG))
    control = batch(-1, base_offset=2, attributes=TRANSACTIONAL_FLAG | CONTROL_FLAG)
    producers.replay(control, EndMarker(commit=True, coordinator_epoch=0, timestamp=1))
    assert isinstance(producers.check(batch(0, 2, attributes=TRANSACTIONAL_FLAG), NO_GUARD), Duplicate)
    assert producers.check(batch(2)) is ACCEPT


def test_a_marker_without_a_transaction_completes_none() -> None:
    producers = states(batch(0))
    control = batch(-1, base_offset=1, attributes=TRANSACTIONAL_FLAG | CONTROL_FLAG)
    assert producers.replay(control, EndMarker(commit=True, coordinator_epoch=0, timestamp=1)) is None
    assert producers.replay(control) is None


def test_replaying_the_log_gives_the_state_that_appending_gave() -> None:
    appended = [batch(3 * number, 3, base_offset=3 * number, timestamp=number) for number in range(8)]
    live = states(*appended)
    replayed = ProducerStates("orders-0")
    for header in appended:
        replayed.replay(header)
    assert [list(entry.batches) for entry in replayed.active()] == [list(entry.batches) for entry in live.active()]


def test_replay_takes_what_compaction_left_without_judging_it() -> None:
    producers = ProducerStates("orders-0")
    producers.replay(batch(0, base_offset=0))
    producers.replay(batch(40, base_offset=90))
    assert producers.check(batch(41)) is ACCEPT


def test_loading_a_snapshot_leaves_out_what_expired_and_keeps_open_transactions() -> None:
    producers = states(batch(0))
    producers.load(
        [
            ProducerEntry(1, 0, last_timestamp=0, batches=[Appended(5, 50, 0, 0)]),
            ProducerEntry(2, 0, last_timestamp=DAY, batches=[Appended(5, 50, 0, DAY)]),
            ProducerEntry(3, 0, last_timestamp=0, current_txn_first_offset=30),
            ProducerEntry(4, 0, last_timestamp=0, current_txn_first_offset=20),
        ],
        now_ms=DAY,
    )
    assert {entry.producer_id for entry in producers.active()} == {2, 3, 4}
    assert producers.transactions.first_open == 20
    assert producers.check(batch(6, producer_id=2)) is ACCEPT


def test_truncating_everything_forgets_everything() -> None:
    producers = states(batch(0, attributes=TRANSACTIONAL_FLAG))
    producers.truncate_full()
    assert len(producers) == 0
    assert producers.transactions.first_open is None


class OneProducer(RuleBasedStateMachine):
    """Against a model that remembers every batch ever appended in the epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.producers = ProducerStates("orders-0")
        self.epoch = 0
        self.end = 0
        self.log: list[tuple[int, int, int]] = []  # sequence, count, base offset, of this epoch
        self.started = False

    def expected(self, epoch: int, sequence: int, count: int) -> Accept | Duplicate | ErrorCode:
        if not self.started:
            return ACCEPT
        if epoch != self.epoch:
            if epoch < self.epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            return ACCEPT if sequence == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        for known, known_count, offset in self.log[-5:]:
            if (known, known_count) == (sequence, count):
                return Duplicate(base_offset=offset, last_offset=offset + count - 1, timestamp=1000)
        known, known_count, _ = self.log[-1]
        follows = (known + known_count) % 2**31 == sequence
        return ACCEPT if follows else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def send(self, epoch: int, sequence: int, count: int) -> None:
        header = batch(sequence, count, epoch=epoch)
        expected = self.expected(epoch, sequence, count)
        try:
            answer: Accept | Duplicate | ErrorCode = self.producers.check(header)
        except KafkaError as error:
            answer = error.code
        assert answer == expected
        if answer is ACCEPT:
            self.producers.record_append(header, self.end)
            if epoch != self.epoch:
                self.log.clear()
            self.log.append((sequence, count, self.end))
            self.epoch, self.started, self.end = epoch, True, self.end + count

    @rule(count=st.integers(1, 4))
    def send_next(self, count: int) -> None:
        sequence = (self.log[-1][0] + self.log[-1][1]) % 2**31 if self.log else MAX - 5
        self.send(self.epoch, sequence, count)

    @rule(back=st.integers(1, 8))
    def repeat(self, back: int) -> None:
        if len(self.log) >= back:
            sequence, count, _ = self.log[-back]
            self.send(self.epoch, sequence, count)

    @rule(sequence=st.integers(0, 20), count=st.integers(1, 4), step=st.integers(-1, 1))
    def send_anything(self, sequence: int, count: int, step: int) -> None:
        self.send(max(self.epoch + step, 0), sequence, count)

    @invariant()
    def the_window_is_bounded(self) -> None:
        assert all(len(entry.batches) <= 5 for entry in self.producers.active())


def test_a_producer_that_wrote_once_takes_a_few_hundred_bytes() -> None:
    headers = [batch(0, producer_id=10_000 + number) for number in range(5_000)]
    producers = states()
    tracemalloc.start()
    for offset, header in enumerate(headers):
        producers.record_append(header, 10_000 + offset)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(producers) == 5_000 and taken < 400 * 5_000


OneProducer.TestCase.settings = settings(max_examples=amount("state_machine_examples"), stateful_step_count=40)
TestOneProducer = OneProducer.TestCase
