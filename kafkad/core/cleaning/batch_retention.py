"""Decides about whole batches in compaction (Cleaner's RecordFilter.checkBatchRetention).

A batch that loses all its records stays as an empty batch if it is the last of a remembered producer, because it has
the last sequence number, or the last of the round, because it has the last offset.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from kafkad.core.cleaning.transactions import CleanedTransactions
from kafkad.core.columns.arrays import Flags
from kafkad.core.columns.window import BatchWindow
from kafkad.core.log.records.batch import DELETE_HORIZON_FLAG


class LastRecord(NamedTuple):
    """The last batch of a producer: the offset of its last record, None if the batch is a marker."""

    last_data_offset: int | None
    producer_epoch: int


LastRecords = Mapping[int, LastRecord]
"""By producer id, for the producers that the log remembers."""


class BatchRetention(NamedTuple):
    """A flag for each batch of a window."""

    is_discarded: Flags
    """None of its records stays."""
    stays_empty: Flags
    """The batch stays, even without records."""
    is_free_marker: Flags
    """A marker of a transaction without remaining batches: it is removed after its delete horizon."""


def judge_batches(
    window: BatchWindow,
    transactions: CleanedTransactions,
    last_records: LastRecords,
    round_end: int,
    now_ms: int,
) -> BatchRetention:
    """`round_end` is the first offset that may not be cleaned."""
    discardable = transactions.discardable(window)
    is_control = window.is_control
    horizon_passed = window.has_flag(DELETE_HORIZON_FLAG) & (window.column("base_timestamp") <= now_ms)
    stays_empty = window.last_offset + 1 == round_end
    stays_empty |= _last_of_producers(window, is_control, last_records)
    return BatchRetention(discardable & (~is_control | horizon_passed), stays_empty, discardable & is_control)


def _last_of_producers(window: BatchWindow, is_control: Flags, last_records: LastRecords) -> Flags:
    last = np.zeros(len(window), np.bool_)
    producer_ids = window.column("producer_id")
    rows = np.flatnonzero(producer_ids >= 0)
    fields = (producer_ids[rows], window.last_offset[rows], window.column("producer_epoch")[rows], is_control[rows])
    columns = (field.tolist() for field in fields)
    for row, producer_id, last_offset, epoch, control in zip(rows.tolist(), *columns, strict=True):
        record = last_records.get(producer_id)
        if record is None:
            continue
        if record.last_data_offset is None:
            last[row] = control and epoch == record.producer_epoch
        else:
            last[row] = last_offset == record.last_data_offset
    return last
