"""A decision is carried out despite failed appends, crashes, and markers that are reported twice or too late."""

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.core.transactions.requests import EndTxn, PartitionsToAdd
from tests.core.coordinator.memory_log import Refused
from tests.core.transactions.bed import T0, T1, TransactionBed


def decided(bed: TransactionBed, *, commit: bool = True, version: int = 0) -> tuple[int, int]:
    producer = bed.started()
    bed.added(producer, T0, T1)
    bed.end(producer, commit=commit, version=version)
    return producer


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commit", [False, True])
def test_markers_are_asked_for_again_after_loading(commit: bool, version: int) -> None:
    bed = TransactionBed()
    decided(bed, commit=commit, version=version)
    before, bed.markers = bed.markers, []
    bed.crash()
    assert bed.markers == before
    bed.write_markers()
    assert bed.state() == ("CompleteCommit" if commit else "CompleteAbort")


def test_a_transaction_without_partitions_is_completed_after_loading() -> None:
    bed = TransactionBed()
    producer = bed.started()
    bed.log.lag()
    bed.ask_end(EndTxn("x", *producer, False, 2))
    bed.log.is_lagging = False
    bed.crash()
    assert bed.state() == "PrepareAbort"
    bed.advance(0)
    assert bed.state() == "CompleteAbort"


def test_completion_that_is_refused_is_tried_again() -> None:
    bed = TransactionBed()
    producer = decided(bed)
    bed.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    bed.write_markers()
    bed.advance(1_000)
    bed.log.refusal = None
    assert bed.state() == "PrepareCommit"
    assert bed.end_code(producer) is ErrorCode.CONCURRENT_TRANSACTIONS
    bed.advance(100)
    assert bed.state() == "CompleteCommit"
    bed.added(producer, T0)


def test_an_id_is_busy_until_its_completion_is_safe() -> None:
    bed = TransactionBed()
    producer = decided(bed)
    bed.log.lag()
    bed.write_markers()
    token = bed.ask_add(PartitionsToAdd("x", *producer, (T0,)))
    bed.catch_up()
    ((_, (result,)),) = bed.answers[token].transactions
    assert result.code is ErrorCode.CONCURRENT_TRANSACTIONS
    bed.added(producer, T0)


def test_markers_told_twice_complete_once() -> None:
    bed = TransactionBed()
    decided(bed)
    (wanted,) = bed.write_markers()
    written = len(bed.log.written)
    bed.markers_written(wanted.transactional_id, wanted.producer_epoch)
    assert len(bed.log.written) == written


def test_markers_of_an_earlier_epoch_complete_nothing() -> None:
    bed = TransactionBed()
    producer_id, epoch = decided(bed, version=2)
    bed.write_markers()
    bed.added((producer_id, epoch + 1), T0)
    bed.end((producer_id, epoch + 1), version=2)
    bed.markers_written("x", epoch + 1)
    assert bed.state() == "PrepareCommit"
    bed.markers_written("x", epoch + 2)
    assert bed.state() == "CompleteCommit"


def test_markers_of_an_id_that_nobody_knows_are_ignored() -> None:
    bed = TransactionBed()
    bed.markers_written("x", 0)
    assert bed.log.written == []


def test_after_resigning_nothing_is_under_way() -> None:
    bed = TransactionBed()
    decided(bed)
    bed.resign()
    bed.markers.clear()
    bed.start()
    bed.write_markers()
    assert bed.state() == "CompleteCommit"


def test_who_waits_hears_of_a_resignation() -> None:
    bed = TransactionBed()
    producer = bed.started()
    bed.added(producer, T0)
    bed.log.lag()
    token = bed.ask_end(EndTxn("x", *producer, True, 0))
    bed.resign()
    assert bed.answers[token] == Refused(ErrorCode.NOT_COORDINATOR)
    assert bed.markers == []
