"""The latest record of each key, as after a complete compaction of the topic."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from kafkad_lakehouse.export.problems import ExportFailed

_REDUCED_BYTES = 64 * 1024 * 1024


def latest_of(batches: Iterable[pa.RecordBatch], *, drops_tombstones: bool) -> Iterator[pa.RecordBatch]:
    """The latest records of one partition; `batches` are in offset order. A record without value deletes its key.

    Holds the latest record of each key in memory. Raises `ExportFailed` for a record without key.
    """
    kept: pa.Table | None = None
    pending: list[pa.RecordBatch] = []
    pending_bytes = 0
    for batch in batches:
        _check_keys(batch)
        pending.append(batch)
        pending_bytes += batch.nbytes
        if pending_bytes >= max(_REDUCED_BYTES, kept.nbytes if kept is not None else 0):
            kept, pending, pending_bytes = _reduced(kept, pending), [], 0
    if pending:
        kept = _reduced(kept, pending)
    if kept is None:
        return
    if drops_tombstones:
        kept = kept.filter(kept.column("value").is_valid())
    yield from kept.to_batches()


def _reduced(kept: pa.Table | None, pending: list[pa.RecordBatch]) -> pa.Table:
    new = pa.Table.from_batches(pending)
    table = new if kept is None else pa.concat_tables([kept, new])
    largest = table.group_by("key").aggregate([("offset", "max")]).column("offset_max")
    return table.filter(pc.is_in(table.column("offset"), value_set=largest))


def _check_keys(batch: pa.RecordBatch) -> None:
    keys = batch.column("key")
    if keys.null_count:
        row = pc.index(keys.is_null(), True).as_py()
        topic, partition, offset = (batch.column(name)[row] for name in ("topic", "partition", "offset"))
        raise ExportFailed(f"{topic}-{partition}: the record at offset {offset} has no key")
