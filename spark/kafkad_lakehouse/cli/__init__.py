"""`kafkad export`: options, requests, commands and output. EXPORT is its entry point, see setup.cfg."""

from kafkad.cli.lazy_group import LazyCommand

EXPORT = LazyCommand("kafkad_lakehouse.cli.export:export", "Export topics to tables: Parquet, Delta or Iceberg.")
