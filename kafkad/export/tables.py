"""Which table is asked for, and that of its dead letters beside it."""

from dataclasses import replace

from kafkad.export.dead_letters import folder_of_dead_letters
from kafkad.export.places import TableFolder, normalized
from kafkad.export.request import KEEP_ALL, ExportRequest
from kafkad.export.sinks.sink import Sink


def open_sink(wanted: ExportRequest) -> Sink:
    """Raises `ExportFailed`."""
    if normalized(wanted.out).startswith("s3://") and wanted.format != "iceberg":
        # Before the store is asked anything: whether its library is there.
        from kafkad.export import conditional_puts  # noqa: PLC0415, F401

    folder = TableFolder(wanted.out)
    if wanted.format == "delta":
        # Only who asks for it needs deltalake.
        from kafkad.export.sinks.delta import DeltaSink  # noqa: PLC0415

        return DeltaSink(folder, wanted.partition_by)
    if wanted.format == "iceberg":
        from kafkad.export.sinks.iceberg import IcebergSink  # noqa: PLC0415

        return IcebergSink(folder, wanted.partition_by, wanted.catalog, _iceberg_name(wanted))
    from kafkad.export.sinks.parquet import ParquetSink  # noqa: PLC0415

    return ParquetSink(folder)


def open_dead_letters(wanted: ExportRequest) -> Sink:
    """A table of the same kind, with commits of its own."""
    out = folder_of_dead_letters(wanted.out)
    name = f"{_iceberg_name(wanted)}__dlq"
    return open_sink(replace(wanted, out=out, keeps=KEEP_ALL, table=name, partition_by="none"))


def _iceberg_name(wanted: ExportRequest) -> str:
    """Dots divide namespaces."""
    return wanted.table or f"kafkad.{wanted.topic.replace('.', '_')}"
