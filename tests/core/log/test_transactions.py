"""What may be written in a transaction, what may end one, and how far one may read meanwhile."""

import pytest

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.coordinated import append_coordinated, append_end_marker
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.producers.verification import NO_GUARD
from kafkad.core.log.replicated import append_as_follower
from kafkad.core.log.segments.layout import TXN_INDEX, file_name
from kafkad.core.log.segments.removal import delete_records_before
from kafkad.core.log.segments.transaction_index import AbortedTransaction
from kafkad.core.log.settings import LogConfig
from kafkad.core.ports import NoSpaceLeft, StorageFailed
from tests.core.log.batches import NOW, SMALL, append, batch, load
from tests.core.log.fake_store import FakeStore

DAY = 86_400_000


def verify(log: PartitionLog, producer: int = 7, *, epoch: int = 0, sequence: int = 0, bumps: bool = False) -> int:
    """The guard of a question that the coordinator answered with yes."""
    return log.producers.begin_verification(producer, epoch, sequence, NOW, supports_epoch_bump=bumps)


def put(
    log: PartitionLog,
    sequence: int,
    count: int = 1,
    *,
    producer: int = 7,
    epoch: int = 0,
    guard: int | None = None,
    bumps: bool = False,
    is_transactional: bool = True,
) -> int:
    """Append a transactional batch, verified unless a guard is given; its first offset."""
    if guard is None:
        guard = verify(log, producer, epoch=epoch, sequence=sequence, bumps=bumps)
    records = batch(count, producer_id=producer, sequence=sequence, epoch=epoch, is_transactional=is_transactional)
    return log.append_as_leader(records, leader_epoch=0, now_ms=NOW, produce_version=11, guard=guard).base_offset


def end(
    log: PartitionLog,
    *,
    producer: int = 7,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    commit: bool = True,
    version: int = 1,
) -> int:
    return append_end_marker(
        log,
        producer_id=producer,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        commit=commit,
        transaction_version=version,
        leader_epoch=0,
        now_ms=NOW,
    ).base_offset


def commit_all(log: PartitionLog) -> int:
    """Replicate everything; the last stable offset then."""
    log.advance_high_watermark(log.log_end_offset)
    return log.last_stable.offset


def refused(act: object) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        act()  # type: ignore[operator]
    return caught.value.code


# What a client may write.


def test_a_batch_that_the_coordinator_was_not_asked_about_is_in_no_transaction() -> None:
    log = load(FakeStore())
    assert refused(lambda: put(log, 0, guard=NO_GUARD)) is ErrorCode.INVALID_TXN_STATE
    assert put(log, 0) == 0
    assert put(log, 1, guard=NO_GUARD) == 1


def test_a_guard_of_another_question_is_none() -> None:
    log = load(FakeStore())
    guard = verify(log)
    assert refused(lambda: put(log, 0, guard=guard + 1)) is ErrorCode.INVALID_TXN_STATE
    assert put(log, 0, guard=guard) == 0


def test_a_marker_takes_the_guard_away_and_the_answer_comes_too_late() -> None:
    log = load(FakeStore())
    guard = verify(log)
    end(log, commit=False)
    assert refused(lambda: put(log, 0, guard=guard)) is ErrorCode.INVALID_TXN_STATE


def test_a_marker_of_the_transaction_before_leaves_the_guard_of_the_next() -> None:
    log = load(FakeStore())
    put(log, 0, bumps=True)
    guard = verify(log, epoch=1, bumps=True)
    end(log, epoch=1, version=2)
    assert put(log, 0, epoch=1, guard=guard) == 2


def test_a_request_without_a_transactional_id_brings_no_transactional_batch() -> None:
    log = load(FakeStore())
    records = batch(producer_id=7, sequence=0, is_transactional=True)
    assert refused(lambda: append(log, records)) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    log.producers.verifies_transactions = False
    assert refused(lambda: append(log, records)) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    of_nobody = batch(producer_id=-1, sequence=-1, is_transactional=True)
    assert refused(lambda: append(log, of_nobody)) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_nothing_is_asked_for_where_verification_is_switched_off() -> None:
    log = load(FakeStore())
    log.producers.verifies_transactions = False
    assert put(log, 0, guard=NO_GUARD) == 0


def test_an_open_transaction_needs_no_question_and_another_epoch_does() -> None:
    log = load(FakeStore())
    put(log, 0)
    assert verify(log, sequence=1) == NO_GUARD
    assert verify(log, epoch=1) != NO_GUARD


def test_an_epoch_that_is_over_is_refused_before_anybody_is_asked() -> None:
    log = load(FakeStore())
    put(log, 0, epoch=3)
    assert refused(lambda: verify(log, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(lambda: put(log, 1, epoch=2, guard=NO_GUARD)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_later_sequence_waits_for_the_one_that_was_asked_about_first() -> None:
    log = load(FakeStore())
    guard = verify(log, sequence=0)
    assert verify(log, sequence=5) == guard
    assert refused(lambda: put(log, 5, guard=guard)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert put(log, 0, 5, guard=guard) == 0
    assert put(log, 5, guard=NO_GUARD) == 5


def test_a_plain_batch_waits_for_it_too() -> None:
    log = load(FakeStore())
    put(log, 0, is_transactional=False, guard=NO_GUARD)
    verify(log, sequence=0)
    behind = batch(producer_id=7, sequence=1)
    assert refused(lambda: append(log, behind)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_first_batch_of_an_unknown_producer_with_bumped_epochs_has_sequence_zero() -> None:
    log = load(FakeStore())
    assert refused(lambda: put(log, 4, bumps=True)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert put(log, 4, producer=8) == 0


def test_a_repetition_is_recognised_before_anything_is_verified() -> None:
    log = load(FakeStore())
    put(log, 0)
    end(log)
    records = batch(producer_id=7, sequence=0, is_transactional=True)
    info = log.append_as_leader(records, leader_epoch=0, now_ms=NOW, produce_version=11, guard=NO_GUARD)
    assert (info.duplicate, info.base_offset) == (True, 0)
    assert refused(lambda: append(log, records)) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_plain_and_transactional_batches_do_not_mix() -> None:
    log = load(FakeStore())
    put(log, 0)
    assert refused(lambda: put(log, 1, is_transactional=False, guard=NO_GUARD)) is ErrorCode.INVALID_TXN_STATE
    end(log)
    assert put(log, 1, is_transactional=False, guard=NO_GUARD) == 2


def test_a_verification_that_came_to_nothing_expires() -> None:
    log = load(FakeStore())
    guard = verify(log)
    log.producers.remove_expired(NOW + DAY - 1)
    assert verify(log) == guard
    log.producers.remove_expired(NOW + DAY)
    assert verify(log) != guard


def test_a_producer_with_an_open_transaction_is_never_forgotten() -> None:
    log = load(FakeStore())
    put(log, 0)
    put(log, 0, producer=8)
    end(log, producer=8)
    log.producers.remove_expired(NOW + 100 * DAY)
    assert [entry.producer_id for entry in log.producers.active()] == [7]
    end(log, commit=False)
    assert log.segments.active.aborted.entries() == [AbortedTransaction(7, 0, 3, 4)]


# What a group coordinator may write.


def test_a_coordinators_batches_have_no_sequences_and_need_a_guard_in_a_transaction() -> None:
    log = load(FakeStore())

    def write(guard: int) -> int:
        records = batch(producer_id=7, sequence=0, is_transactional=True)
        return append_coordinated(log, records, leader_epoch=0, now_ms=NOW, guard=guard).base_offset

    assert refused(lambda: write(NO_GUARD)) is ErrorCode.INVALID_TXN_STATE
    assert write(verify(log, sequence=-1)) == 0
    assert write(NO_GUARD) == 1
    plain = append_coordinated(log, batch(), leader_epoch=0, now_ms=NOW)
    assert plain.base_offset == 2


# What may end a transaction.


def test_a_coordinator_of_an_older_epoch_is_fenced() -> None:
    log = load(FakeStore())
    end(log, coordinator_epoch=5)
    assert refused(lambda: end(log, coordinator_epoch=4)) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert end(log, coordinator_epoch=5) == 1


def test_a_marker_of_an_older_producer_epoch_is_refused() -> None:
    log = load(FakeStore())
    put(log, 0, epoch=2)
    assert refused(lambda: end(log, epoch=1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(lambda: end(log, epoch=1, version=2)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_with_bumped_epochs_the_marker_of_an_open_transaction_has_the_next_one() -> None:
    log = load(FakeStore())
    put(log, 0, bumps=True)
    assert refused(lambda: end(log, epoch=0, version=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(log, epoch=1, version=2) == 1
    assert end(log, epoch=1, version=2) == 2, "a marker may be written twice"


def test_the_last_epoch_there_is_ends_its_transaction_itself() -> None:
    log = load(FakeStore())
    put(log, 0, epoch=32767, bumps=True)
    assert end(log, epoch=32767, version=2) == 1


def test_a_marker_without_a_transaction_is_written_and_ends_nothing() -> None:
    log = load(FakeStore())
    assert end(log, commit=False) == 0
    assert commit_all(log) == 1
    assert log.segments.active.aborted.entries() == []
    entry = log.producers.get(7)
    assert entry is not None and entry.coordinator_epoch == 0


def test_a_marker_gets_the_brokers_time_where_records_do() -> None:
    log = load(FakeStore(), config=LogConfig(message_timestamp_type="LogAppendTime"))
    end(log)
    assert log.segments.active.max_timestamp == NOW


# How far one may read.


def test_the_last_stable_offset_is_where_the_oldest_open_transaction_begins() -> None:
    log = load(FakeStore())
    append(log, batch(3))
    put(log, 0, 2)
    put(log, 0, 2, producer=8)
    append(log, batch(3))
    assert commit_all(log) == 3
    end(log)
    assert commit_all(log) == 5
    end(log, producer=8, commit=False)
    assert commit_all(log) == log.log_end_offset == 12


def test_a_decided_transaction_stays_unstable_until_its_marker_is_replicated() -> None:
    log = load(FakeStore())
    put(log, 0, 2)
    end(log)
    append(log, batch(2))
    log.advance_high_watermark(2)
    assert log.last_stable.offset == 0
    log.advance_high_watermark(3)
    assert log.last_stable.offset == 3


def test_of_a_transaction_whose_beginning_was_deleted_only_the_rest_is_unstable() -> None:
    log = load(FakeStore())
    put(log, 0, 4)
    put(log, 4, 4)
    commit_all(log)
    delete_records_before(log, 4)
    assert log.last_stable.offset == 4


def test_the_place_of_the_last_stable_offset_costs_no_look_into_the_files() -> None:
    store = FakeStore()
    log = load(store)
    append(log, batch(3))
    put(log, 0)
    for _ in range(100):
        append(log, batch())
    commit_all(log)
    reads = store.reads
    assert log.last_stable.offset == 3
    assert store.reads == reads
    assert log.last_stable == log.position_of(3)


# What is indexed, and when.


def test_an_abort_is_in_the_index_of_the_segment_that_holds_its_marker() -> None:
    store = FakeStore()
    log = load(store)
    put(log, 0)
    put(log, 0, producer=8)
    log.roll(log.log_end_offset, NOW)
    end(log, commit=False)
    end(log, producer=8, commit=False)
    end(log, producer=9, commit=False)
    assert file_name(0, TXN_INDEX) not in store.sizes()
    assert log.segments.active.aborted.entries() == [AbortedTransaction(7, 0, 2, 1), AbortedTransaction(8, 1, 3, 4)]


def test_a_full_disk_leaves_the_transaction_open_and_no_entry_behind() -> None:
    store = FakeStore()
    log = load(store)
    put(log, 0)
    for full in (".txnindex", ".log"):
        store.full_for = full
        with pytest.raises(NoSpaceLeft):
            end(log, commit=False)
        assert log.segments.active.aborted.entries() == []
        assert commit_all(log) == 0
    store.full_for = None
    end(log)
    assert commit_all(log) == 2
    assert log.segments.active.aborted.entries() == []


def test_a_marker_is_not_in_the_log_when_its_entry_could_not_be_written() -> None:
    store = FakeStore()
    log = load(store)
    put(log, 0)
    store.fail_on = "write 00000000000000000000.txnindex"
    with pytest.raises(StorageFailed):
        end(log, commit=False)
    assert log.log_end_offset == 1


def test_a_follower_indexes_what_its_leader_aborted() -> None:
    leader_store = FakeStore()
    leader = load(leader_store)
    put(leader, 0)
    end(leader, commit=False)
    follower = load(FakeStore())
    content = memoryview(bytearray(leader_store.read(file_name(0, ".log"))))
    append_as_follower(follower, content, leader_epoch=0, now_ms=NOW)
    assert follower.segments.active.aborted.entries() == [AbortedTransaction(7, 0, 1, 2)]
    assert commit_all(follower) == 2


@pytest.mark.parametrize("was_clean", [True, False])
def test_open_transactions_and_index_outlive_the_process(was_clean: bool) -> None:
    store = FakeStore()
    log = load(store)
    put(log, 0)
    end(log, commit=False)
    put(log, 0, producer=8)
    if was_clean:
        log.close()
    again = load(store, was_clean=was_clean)
    assert again.segments.active.aborted.entries() == [AbortedTransaction(7, 0, 1, 2)]
    assert commit_all(again) == 2
    end(again, producer=8, commit=False)
    assert commit_all(again) == 4


@pytest.mark.parametrize("damage", [b"\0\0", b"\0" * 34, b"\x00\x09" + b"\0" * 32])
def test_an_index_that_can_not_be_right_is_made_anew(damage: bytes) -> None:
    store = FakeStore()
    log = load(store)
    put(log, 0)
    log.roll(log.log_end_offset, NOW)
    end(log, commit=False)
    wanted = log.segments.active.aborted.entries()
    log.close()
    name = file_name(1, TXN_INDEX)
    store.open(name).write_at((damage,), store.sizes()[name])
    again = load(store, was_clean=True)
    assert again.segments.active.aborted.entries() == wanted
    assert store.sizes()[name] == 34


def test_an_index_without_its_segment_goes() -> None:
    store = FakeStore()
    load(store).close()
    store.open(file_name(90, TXN_INDEX), create=True).write_at((b"x" * 34,), 0)
    load(store, was_clean=True)
    assert file_name(90, TXN_INDEX) not in store.sizes()


def test_removed_segments_take_their_index_along() -> None:
    store = FakeStore()
    log = load(store, config=SMALL)
    put(log, 0)
    end(log, commit=False)
    log.roll(log.log_end_offset, NOW)
    commit_all(log)
    (effect,) = delete_records_before(log, 2)
    assert file_name(0, TXN_INDEX) + ".deleted" in effect.names
