"""The request for an export: a plain value."""

from dataclasses import dataclass

from kafkad_lakehouse.export.values.format import FAIL, ValueFormat

ALL, LED = "all", "led"
KEEP_ALL, KEEP_LATEST = "all", "latest"
"""The rows of a table: every record, or the latest record of each key."""
SKIP = "skip"
"""The third value of `on_damage`, besides `FAIL` and `DEAD_LETTERS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """The options of an export. `name` is part of the group id under which the export commits its offsets."""

    topic: str
    out: str
    name: str
    bootstrap: str
    """Empty: without a broker."""
    format: str = "parquet"
    catalog: str = ""
    table: str = ""
    """For Iceberg: the address of the catalog, and the name of the table in the catalog."""
    keeps: str = KEEP_ALL
    on_damage: str = FAIL
    """For batches that are damaged, or whose records can't be read."""
    formats: tuple[ValueFormat, ...] = ()
    """The formats of keys and values; without an entry they stay bytes only."""
    partitions: str = ALL
    """All partitions of the topic, or those with a leader on this machine."""
    source: str = "broker"
    log_dirs: tuple[str, ...] = ()
    """With source "files"; empty: the directories that the broker describes."""
    start: str = "earliest"
    """earliest, latest, or milliseconds since 1970; for partitions that the table does not have yet."""
    end: str = "latest"
    partition_by: str = "none"
    target_file_bytes: int = 256 * 1024 * 1024
    compression: str = "zstd"
    max_bytes_per_sec: int = 0
    is_committed: bool = True
    idle_after_s: float | None = None
    """Treat a fully exported partition as complete up to now minus this time; None: up to its newest record."""
    may_widen: bool = True
    """Whether new fields of a schema are added to the table."""
    skips_lost: bool = False
    accepts_recreated: bool = False
    jobs: int = 1
    timeout_s: float = 30.0
