"""What is asked of an export: a plain value."""

from dataclasses import dataclass

from kafkad.export.values.format import FAIL, ValueFormat

ALL, LED = "all", "led"
KEEP_ALL, KEEP_LATEST = "all", "latest"
"""What a table keeps: every record, or that one of each key."""
SKIP = "skip"
"""With `FAIL` and `DEAD_LETTERS`: what becomes of a batch that is damaged, or whose records can't be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """What is asked for. `name` is that of the export: it names its group, in which its lag is seen."""

    topic: str
    out: str
    name: str
    bootstrap: str
    """Empty: there is no broker."""
    format: str = "parquet"
    catalog: str = ""
    table: str = ""
    """Of Iceberg: where its catalog is, and what the table is called there."""
    keeps: str = KEEP_ALL
    """Every record, or the latest of each key."""
    on_damage: str = FAIL
    formats: tuple[ValueFormat, ...] = ()
    """What is parsed: keys, values, both or, where both stay bytes, nothing."""
    partitions: str = ALL
    """All of the topic, or those that are led by a broker of this machine."""
    source: str = "broker"
    log_dirs: tuple[str, ...] = ()
    """With source "files"; none: those that the broker names."""
    start: str = "earliest"
    """earliest, latest, or milliseconds since 1970; for a partition that the table does not have yet."""
    end: str = "latest"
    partition_by: str = "none"
    target_file_bytes: int = 256 * 1024 * 1024
    compression: str = "zstd"
    max_bytes_per_sec: int = 0
    is_committed: bool = True
    idle_after_s: float | None = None
    """A partition of which the table has everything is complete up to so long ago; None: up to its newest record."""
    may_widen: bool = True
    """Whether a schema may bring new columns into the table."""
    skips_lost: bool = False
    accepts_recreated: bool = False
    jobs: int = 1
    timeout_s: float = 30.0
