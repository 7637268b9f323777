"""The end offsets of a table, as the start of a query without its checkpoint.

A table of `kafkad export` has its end offsets. For another Delta table with the columns topic, partition and offset the
end is the largest offset plus one, which is correct if each batch of the query was one commit. Folders of Parquet files
without a log are rejected: they may have a part of a batch.
"""

from collections.abc import Mapping

import pyarrow as pa

from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.ranges import TopicFacts
from kafkad_lakehouse.export.sinks.manifest_log import LOG
from kafkad_lakehouse.export.sinks.parquet import ParquetSink
from kafkad_lakehouse.export.sinks.sink import TableState
from kafkad_lakehouse.export.table_folder import TableFolder
from kafkad_lakehouse.source.offsets import Offsets

_NEEDED = ("topic", "partition", "offset")


def ends_of_table(out: str, topics: Mapping[str, TopicFacts]) -> Offsets:
    """The end offsets; empty if the table does not exist. Raises `ExportFailed`."""
    folder = TableFolder(out)
    # In an object store runs of all formats write a probe object with a leading dot there.
    if any(not name.startswith(f"{LOG}/.") for name in folder.names(LOG)):
        partitions = [each for facts in topics.values() for each in facts.bounds]
        return _of_export(ParquetSink(folder).state(partitions), topics, out)
    if not folder.names("_delta_log"):
        if folder.names():
            raise ExportFailed(f"{out} has no end offsets: it is not a Delta table, and not a table of kafkad export")
        return {}
    return _of_delta(folder, topics)


def _of_export(state: TableState, topics: Mapping[str, TopicFacts], out: str) -> Offsets:
    facts = topics.get(state.topic or "")
    if facts is None or facts.topic_id != state.topic_id:
        raise ExportFailed(f"{out} is a table of another topic, or of a deleted topic of this name")
    return {(facts.name, partition): end for partition, end in state.offsets.items()}


def _of_delta(folder: TableFolder, topics: Mapping[str, TopicFacts]) -> Offsets:
    # Only Delta tables need deltalake.
    import deltalake  # noqa: PLC0415

    from kafkad_lakehouse.export.sinks.delta import DeltaSink, check_name, is_of_export  # noqa: PLC0415

    check_name(folder)
    table = deltalake.DeltaTable(folder.out)
    if is_of_export(table):
        partitions = [each for facts in topics.values() for each in facts.bounds]
        return _of_export(DeltaSink(folder, "none").state(partitions), topics, folder.out)
    names = {field.name for field in table.schema().fields}
    missing = [name for name in _NEEDED if name not in names]
    if missing:
        raise ExportFailed(f"{folder.out} has no column {missing[0]!r}, so its end offsets are unknown")
    rows = table.to_pyarrow_dataset().scanner(columns=list(_NEEDED)).to_table()
    largest: pa.Table = rows.group_by(["topic", "partition"]).aggregate([("offset", "max")])
    found = zip(*(largest.column(name).to_pylist() for name in ("topic", "partition", "offset_max")), strict=True)
    return {(topic, partition): offset + 1 for topic, partition, offset in found if topic in topics}
