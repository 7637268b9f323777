"""The actions of a commit in the log of a Delta table: `add` for files, and `txn` for offsets.

`txn` actions have the start offset, the end offset and the largest timestamp of each partition, and the marker of
complete hours.
"""

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from deltalake import CommitProperties, Transaction
from deltalake.transaction import AddAction

from kafkad_lakehouse.export.sinks.complete_hours import progress_after
from kafkad_lakehouse.export.sinks.sink import Commit, TableState
from kafkad_lakehouse.export.writing import DATE, END_US, FIRST_US, HOUR, NO_DATE, WrittenFile

NO_MARKER = -1
"""Stands for a missing marker: no hour is complete."""


def app_id(cluster_id: str, topic_id: UUID, partition: int) -> str:
    return f"kafkad:{cluster_id}:{topic_id}:{partition}"


def time_id(partition_id: str) -> str:
    """The app id of the largest timestamp of a partition."""
    return f"{partition_id}:time"


def begin_id(partition_id: str) -> str:
    """The app id of the first exported offset of a partition."""
    return f"{partition_id}:begin"


def marker_id(cluster_id: str, topic_id: UUID) -> str:
    return f"kafkad:{cluster_id}:{topic_id}:complete"


def commit_properties(state: TableState, commit: Commit) -> CommitProperties:
    """The `txn` actions: end offsets, changed timestamps and always the marker, so that concurrent commits conflict."""
    reached, complete_until = progress_after(state, commit)
    continues = state.topic_id == commit.topic_id
    transactions = [
        Transaction(app_id(commit.cluster_id, commit.topic_id, partition), end)
        for partition, end in commit.ends.items()
    ]
    for partition, start in commit.begins(state).items():
        transactions.append(Transaction(begin_id(app_id(commit.cluster_id, commit.topic_id, partition)), start))
    for partition, time_us in reached.items():
        if not continues or state.reached.get(partition) != time_us:
            transactions.append(Transaction(time_id(app_id(commit.cluster_id, commit.topic_id, partition)), time_us))
    marker = NO_MARKER if complete_until is None else complete_until
    transactions.append(Transaction(marker_id(commit.cluster_id, commit.topic_id), marker))
    left_out = {"lost": list(map(tuple, commit.lost)), "skipped": list(map(tuple, commit.skipped))}
    details = {"run": commit.run_id, "completeUntil": complete_until, **left_out}
    return CommitProperties(custom_metadata={"kafkad": json.dumps(details)}, app_transactions=transactions)


def _time(milliseconds: int) -> str:
    at = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def add_action(file: WrittenFile) -> AddAction:
    values = {name: value for name, value in ((DATE, file.date), (HOUR, file.hour)) if value is not None}
    stats: dict[str, Any] = {
        "numRecords": file.rows,
        "minValues": {"offset": file.first_offset, "partition": file.partition},
        "maxValues": {"offset": file.last_offset, "partition": file.partition},
        "nullCount": {"offset": 0, "partition": 0},
    }
    first, last = file.min_timestamp, file.max_timestamp
    if first is not None and last is not None and first >= FIRST_US and last <= END_US - 1_000:
        # The log has milliseconds: round the bounds outwards.
        stats["minValues"]["timestamp"] = _time(first // 1_000)
        stats["maxValues"]["timestamp"] = _time(-(-last // 1_000))
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values={name: None if value == NO_DATE else value for name, value in values.items()},
        modification_time=time.time_ns() // 1_000_000,
        data_change=True,
        stats=json.dumps(stats),
    )
