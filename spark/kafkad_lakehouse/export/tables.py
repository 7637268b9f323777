"""Open the sink of a request: the table, and the table of its dead letters."""

from dataclasses import replace

from kafkad_lakehouse.export.dead_letters import folder_of_dead_letters
from kafkad_lakehouse.export.request import KEEP_ALL, ExportRequest
from kafkad_lakehouse.export.sinks.sink import Sink
from kafkad_lakehouse.export.table_folder import TableFolder, normalized


def open_sink(request: ExportRequest) -> Sink:
    """Raises `ExportFailed`."""
    if normalized(request.out).startswith("s3://") and request.format != "iceberg":
        # Check that the library is installed before the first request to the store.
        from kafkad_lakehouse.export import conditional_puts  # noqa: PLC0415, F401

    folder = TableFolder(request.out)
    if request.format == "delta":
        # Only Delta tables need deltalake.
        from kafkad_lakehouse.export.sinks.delta import DeltaSink  # noqa: PLC0415

        return DeltaSink(folder, request.partition_by)
    if request.format == "iceberg":
        from kafkad_lakehouse.export.sinks.iceberg import IcebergSink  # noqa: PLC0415

        return IcebergSink(folder, request.partition_by, request.catalog, _iceberg_name(request))
    from kafkad_lakehouse.export.sinks.parquet import ParquetSink  # noqa: PLC0415

    return ParquetSink(folder)


def open_dead_letters(request: ExportRequest) -> Sink:
    """A table of the same format, with separate commits."""
    out = folder_of_dead_letters(request.out)
    name = f"{_iceberg_name(request)}__dlq"
    return open_sink(replace(request, out=out, keeps=KEEP_ALL, table=name, partition_by="none"))


def _iceberg_name(request: ExportRequest) -> str:
    """Dots separate namespaces, so they are replaced in the name of the topic."""
    return request.table or f"kafkad.{request.topic.replace('.', '_')}"
