"""The amount of work of each row: for a full measurement, or a quick check."""

from dataclasses import dataclass

_GIGABYTE = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Amounts of work; no row uses more than a few gigabytes of disk space at once."""

    bulk_bytes: int
    tiny_requests: int
    fetch_log_bytes: int
    fetch_bytes_per_connection: int
    latency_messages: int
    client_records: int
    lake_bytes: int
    compaction_bytes: int
    commits: int
    paced_seconds: float
    joins: int
    heartbeats: int
    transactions: int
    idle_seconds: float
    starts: int
    partitions: int
    scratch_gigabytes: int
    warm_up: float


FULL = Scale(
    bulk_bytes=2 * _GIGABYTE,
    tiny_requests=120_000,
    fetch_log_bytes=_GIGABYTE,
    fetch_bytes_per_connection=4 * _GIGABYTE,
    latency_messages=4_000,
    client_records=1_500_000,
    lake_bytes=_GIGABYTE // 4,
    compaction_bytes=_GIGABYTE // 2,
    commits=100_000,
    paced_seconds=20,
    joins=10_000,
    heartbeats=50_000,
    transactions=2_000,
    idle_seconds=30,
    starts=5,
    partitions=10_000,
    scratch_gigabytes=5,
    warm_up=1.0,
)
QUICK = Scale(
    bulk_bytes=_GIGABYTE,
    tiny_requests=20_000,
    fetch_log_bytes=_GIGABYTE // 4,
    fetch_bytes_per_connection=_GIGABYTE,
    latency_messages=600,
    client_records=200_000,
    lake_bytes=_GIGABYTE // 20,
    compaction_bytes=_GIGABYTE // 20,
    commits=20_000,
    paced_seconds=5,
    joins=3_000,
    heartbeats=10_000,
    transactions=400,
    idle_seconds=20,
    starts=2,
    partitions=10_000,
    scratch_gigabytes=2,
    warm_up=1.0,
)
