"""All rows of the benchmark by short name, in the order of execution."""

from collections.abc import Callable, Mapping
from functools import partial

from bench import client_rows, commit_rows, group_rows, lake_rows, lifecycle_rows, raw_rows, transaction_rows
from bench.brokers.broker import RunningBroker
from bench.compaction.data_sets import Content, DataSets
from bench.compaction.rows import beside_compaction, compaction
from bench.figures import Figure
from bench.scale import Scale

OnRunning = Callable[[RunningBroker, Scale, str], list[Figure]]
OnFresh = Callable[[Callable[[], RunningBroker], Scale, str], list[Figure]]
OnDataSet = Callable[[Callable[[], RunningBroker], DataSets, Scale, str], list[Figure]]

_bulk = raw_rows.bulk
_BATCHES = {"16k": 16_384, "1m": 1_000_000}
_COMPACTED = {
    f"compact-{size}-{codec}-{repeated}-{batches}": Content(
        record_size=size, codec=codec, repeated_percent=repeated, batch_bytes=batch_bytes
    )
    for size in (100, 1_000)
    for codec in ("none", "lz4", "zstd")
    for repeated in (10, 90)
    for batches, batch_bytes in _BATCHES.items()
}
_BESIDE = _COMPACTED["compact-1000-lz4-90-16k"]

TITLES = {
    "start": "start to first successful produce",
    "idle": "at rest",
    "produce-1mb": "produce, 1 MB requests, 1 partition, 1 KB records",
    "produce-1mb-12": "produce, 1 MB requests, 12 partitions, 1 KB records",
    "produce-4x16k-1k": "produce, 4 × 16 KB batches a request, 1 KB records",
    "produce-4x16k-100": "produce, 4 × 16 KB batches a request, 100 B records",
    "tiny-1": "produce, 10 × 100 B a request, 1 connection",
    "tiny-4": "produce, 10 × 100 B a request, 4 connections",
    "fetch-1": "fetch from the page cache, 1 connection",
    "fetch-4": "fetch from the page cache, 4 connections",
    "latency": "end to end, 200 messages/s, waiting consumer",
    "librdkafka": "confluent-kafka, 1 KB records",
    "java": "Kafka's Java clients, 1 KB records",
    "java-group": "Kafka's ConsumerPerformance (through a group)",
    "commits-1": "commits of one partition, 1 connection",
    "commits-4": "commits of one partition, 4 connections",
    "commits-paced": "10,000 commits/s, 10 connections",
    "join-1": "classic group of 1, all join and sync",
    "join-100": "classic group of 100, all join and sync",
    "join-1000": "classic group of 1,000, all join and sync",
    "join-consumer": "group of 100 of the new protocol (KIP-848)",
    "transactions-1": "transactions of 1 record",
    "transactions-10": "transactions of 10 records",
    "transactions-100": "transactions of 100 records",
    **{
        f"lake-{size}-{codec}{suffix}": f"a topic into a table, {size} B records, {codec}, {cores}"
        for size in (100, 1_000)
        for codec in ("none", "lz4", "zstd")
        for suffix, cores in (("", "2 cores"), ("-1", "1 core"))
    },
    **{
        name: f"compaction, {content.record_size} B records, {content.codec}, {content.repeated_percent} % of repeated "
        f"keys, batches of {content.batch_bytes // 1_000} KB"
        for name, content in _COMPACTED.items()
    },
    "compact-beside": "end to end, 200 messages/s, beside a compaction",
    "memory": "after the load",
    "partitions": "10,000 partitions",
    "partitions-killed": "10,000 partitions after kill -9",
}

ON_FRESH: Mapping[str, OnFresh] = {
    "start": lifecycle_rows.start_up,
    "partitions": lifecycle_rows.many_partitions,
    "partitions-killed": lifecycle_rows.after_a_crash,
}

# A new broker opens prepared logs.
ON_DATA_SET: Mapping[str, OnDataSet] = {
    **{name: partial(compaction, content=content) for name, content in _COMPACTED.items()},
    "compact-beside": partial(beside_compaction, content=_BESIDE),
}

# One broker runs all of these rows, without a restart between them.
ON_RUNNING: Mapping[str, OnRunning] = {
    "idle": lifecycle_rows.at_rest,
    "produce-1mb": partial(_bulk, partitions=1, batch_bytes=1_040_000, record_size=1_024),
    "produce-1mb-12": partial(_bulk, partitions=12, batch_bytes=86_000, record_size=1_024),
    "produce-4x16k-1k": partial(_bulk, partitions=4, batch_bytes=16_384, record_size=1_024),
    "produce-4x16k-100": partial(_bulk, partitions=4, batch_bytes=16_384, record_size=100),
    "tiny-1": partial(raw_rows.tiny, connections=1),
    "tiny-4": partial(raw_rows.tiny, connections=4),
    "fetch-1": partial(raw_rows.page_cache_fetch, connections=1),
    "fetch-4": partial(raw_rows.page_cache_fetch, connections=4),
    "latency": raw_rows.end_to_end,
    "librdkafka": client_rows.librdkafka,
    "java": client_rows.java,
    "java-group": client_rows.java_group,
    "commits-1": partial(commit_rows.commits, connections=1),
    "commits-4": partial(commit_rows.commits, connections=4),
    "commits-paced": commit_rows.paced,
    "join-1": partial(group_rows.classic, members=1),
    "join-100": partial(group_rows.classic, members=100),
    "join-1000": partial(group_rows.classic, members=1_000),
    "join-consumer": partial(group_rows.consumer, members=100),
    "transactions-1": partial(transaction_rows.transactions, records=1),
    "transactions-10": partial(transaction_rows.transactions, records=10),
    "transactions-100": partial(transaction_rows.transactions, records=100),
    **{
        f"lake-{size}-{codec}{suffix}": partial(lake_rows.lake, record_size=size, codec=codec, cores=cores)
        for size in (100, 1_000)
        for codec in ("none", "lz4", "zstd")
        for suffix, cores in (("", 2), ("-1", 1))
    },
    "memory": lifecycle_rows.after_load,
}
