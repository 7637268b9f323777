"""All metrics, their names, and the words of a process's block that count them.

Names are Apache Kafka's MBeans in the form of the common exporter rules, so that existing dashboards work. Each row is
one metric; its constant is the index of its first word: `block[MESSAGES_IN] += count`. For metrics with labels,
functions such as `request_index` return the word. All blocks are summed unless the row has another rule. Metrics that
no process counts have no row: a constant 0 would be misleading.
"""

from kafkad.core.metrics.block_layout import COUNTER, GAUGE, HISTOGRAM, BlockLayout
from kafkad.core.metrics.metric import MetricRow

API_KEYS = 96
API_VERSIONS = 24
ERROR_CODES = 160
"""With reserve for later protocol versions; words that stay 0 are not shown."""

LOG_DIRS = 64
"""Log directories with a series of their own; further directories count for the last one."""

FETCH_CONSUMER, FETCH_FOLLOWER = 94, 95
"""Kafka counts each fetch also as a consumer's or a follower's; these keys are not in the protocol.

A fetch is counted under one of them only, and the snapshot adds them up.
"""
FETCH = 1

LATENCY_LIMITS_MS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 5000.0, 30000.0)

REBALANCE_LIMITS_MS = (10.0, 100.0, 1_000.0, 3_000.0, 10_000.0, 30_000.0, 60_000.0, 300_000.0)

_CONTROLLER = "kafka.controller:type=KafkaController,name="
_REPLICAS = "kafka.server:type=ReplicaManager,name="
_FETCHERS = "kafka.server:type=ReplicaFetcherManager,name="
_FETCHER = "kafka.server:type=FetcherStats,name="
_SOCKETS = "kafka.server:type=socket-server-metrics,name="
_SESSIONS = "kafka.server:type=FetchSessionCache,name="
_REQUESTS = "kafka.network:type=RequestMetrics,name="
_CLEANER = "kafka.log:type=LogCleaner,name="
_CLEANER_MANAGER = "kafka.log:type=LogCleanerManager,name="
_OWN = ""

_block = BlockLayout()

MESSAGES_IN = _block.topic_counter("MessagesInPerSec", "Records appended.")
BYTES_IN = _block.topic_counter("BytesInPerSec", "Bytes of records appended.")
BYTES_OUT = _block.topic_counter("BytesOutPerSec", "Bytes of records sent to consumers.")
BYTES_REJECTED = _block.topic_counter("BytesRejectedPerSec", "Bytes of rejected records.")
FAILED_PRODUCE = _block.topic_counter(
    "FailedProduceRequestsPerSec", "Failed batches, without corrupt or too large ones."
)
FAILED_FETCH = _block.topic_counter("FailedFetchRequestsPerSec", "Partitions not read because of a broker error.")
TOTAL_PRODUCE = _block.topic_counter("TotalProduceRequestsPerSec", "Partitions in Produce requests.")
TOTAL_FETCH = _block.topic_counter("TotalFetchRequestsPerSec", "Partitions in Fetch requests.")
INVALID_CRC = _block.topic_counter("InvalidMessageCrcRecordsPerSec", "Batches rejected because of their checksum.")
INVALID_SEQUENCE = _block.topic_counter(
    "InvalidOffsetOrSequenceRecordsPerSec", "Batches rejected because of their offsets or sequence numbers."
)
NO_KEY_COMPACTED = _block.topic_counter(
    "NoKeyCompactedTopicRecordsPerSec", "Records without a key rejected by a compacted topic."
)

REPLICATION_BYTES_IN = _block.topic_counter("ReplicationBytesInPerSec", "Bytes of records fetched from leaders.")
REPLICATION_BYTES_OUT = _block.topic_counter("ReplicationBytesOutPerSec", "Bytes of records sent to followers.")

ISR_SHRINKS = _block.counter(
    "kafka_server_replicamanager_isrshrinks",
    _REPLICAS + "IsrShrinksPerSec",
    "Changes that removed replicas from an ISR.",
)
ISR_EXPANDS = _block.counter(
    "kafka_server_replicamanager_isrexpands", _REPLICAS + "IsrExpandsPerSec", "Changes that added a replica to an ISR."
)
FAILED_ISR_UPDATES = _block.counter(
    "kafka_server_replicamanager_failedisrupdates",
    _REPLICAS + "FailedIsrUpdatesPerSec",
    "Changes of an ISR that the controller rejected.",
)

FETCHER_REQUESTS = _block.add(
    COUNTER,
    "kafka_server_fetcherstats_requests",
    _FETCHER + "RequestsPerSec",
    "Fetch requests to leaders.",
    per_process=True,
    role="fetcher",
)
FETCHER_BYTES = _block.add(
    COUNTER,
    "kafka_server_fetcherstats_bytes",
    _FETCHER + "BytesPerSec",
    "Bytes of records in responses of leaders.",
    per_process=True,
    role="fetcher",
)
FETCHER_LEADERS = _block.add(
    GAUGE,
    "kafkad_fetcher_leaders",
    _OWN,
    "Leaders from which a fetcher process fetches.",
    per_process=True,
    role="fetcher",
)
FAILED_PARTITIONS = _block.gauge(
    "kafka_server_replicafetchermanager_failedpartitionscount",
    _FETCHERS + "FailedPartitionsCount",
    "Replicas that are not fetched until a retry, after a persistent error.",
)
THROTTLED_LEADER_BYTES = _block.throttled("leader")
THROTTLED_FOLLOWER_BYTES = _block.throttled("follower")

PURGATORY_PRODUCE = _block.purgatory("Produce")
PURGATORY_FETCH = _block.purgatory("Fetch")
PURGATORY_DELETE_RECORDS = _block.purgatory("DeleteRecords")

ACTIVE_CONTROLLER = _block.gauge(
    "kafka_controller_kafkacontroller_activecontrollercount",
    _CONTROLLER + "ActiveControllerCount",
    "1 on the broker that is the controller.",
)
OFFLINE_PARTITIONS = _block.gauge(
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    _CONTROLLER + "OfflinePartitionsCount",
    "Partitions without a leader, on the active controller.",
)
PREFERRED_REPLICA_IMBALANCE = _block.gauge(
    "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
    _CONTROLLER + "PreferredReplicaImbalanceCount",
    "Partitions whose leader is not the preferred replica, on the active controller.",
)
UNCLEAN_ELECTIONS = _block.counter(
    "kafka_controller_controllerstats_uncleanleaderelections",
    "kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec",
    "Leaders elected outside of the in-sync replicas: records were lost.",
)
REASSIGNING_PARTITIONS = _block.gauge(
    "kafka_server_replicamanager_reassigningpartitions",
    _REPLICAS + "ReassigningPartitions",
    "Partitions that this broker leads and that are being reassigned.",
)
GLOBAL_TOPICS = _block.gauge(
    "kafka_controller_kafkacontroller_globaltopiccount",
    _CONTROLLER + "GlobalTopicCount",
    "Topics of the cluster, on the active controller.",
)
GLOBAL_PARTITIONS = _block.gauge(
    "kafka_controller_kafkacontroller_globalpartitioncount",
    _CONTROLLER + "GlobalPartitionCount",
    "Partitions of the cluster, on the active controller.",
)

CONNECTIONS = _block.gauge(
    "kafka_server_socketservermetrics_connection_count", _SOCKETS + "connection-count", "Open connections."
)
CONNECTIONS_CREATED = _block.counter(
    "kafka_server_socketservermetrics_connection_creation",
    _SOCKETS + "connection-creation-total",
    "Connections accepted.",
)
CONNECTIONS_CLOSED = _block.counter(
    "kafka_server_socketservermetrics_connection_close",
    _SOCKETS + "connection-close-total",
    "Connections closed by either side.",
)
FETCH_SESSIONS = _block.gauge(
    "kafka_server_fetchsessioncache_numincrementalfetchsessions",
    _SESSIONS + "NumIncrementalFetchSessions",
    "Cached fetch sessions.",
)
FETCH_SESSION_EVICTIONS = _block.counter(
    "kafka_server_fetchsessioncache_incrementalfetchsessionevictions",
    _SESSIONS + "IncrementalFetchSessionEvictionsPerSec",
    "Fetch sessions evicted from the cache.",
)
LOG_FLUSHES = _block.counter(
    "kafka_log_logflushstats_logflushrateandtimems",
    "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
    "Flushes of logs to disk.",
)
OFFLINE_LOG_DIRS = _block.gauge(
    "kafka_log_logmanager_offlinelogdirectorycount",
    "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
    "Offline log directories.",
)

ARENA_USED = _block.gauge("kafkad_arena_used_bytes", _OWN, "Memory used by produce requests in progress.")
ARENA_SIZE = _block.gauge("kafkad_arena_size_bytes", _OWN, "Memory for produce requests.")
ARENA_EXHAUSTED = _block.counter(
    "kafkad_arena_exhausted", _OWN, "Times that connections were not read because the arena was full."
)
THROTTLED = _block.counter("kafkad_quota_throttled_requests", _OWN, "Responses with a throttle time.")
BUSY_NS = _block.add(
    COUNTER,
    "kafkad_process_busy_seconds",
    _OWN,
    "Time that the loop of a process was busy.",
    per_process=True,
    scale=1e-9,
)

REQUESTS = _block.add(
    COUNTER,
    "kafka_network_requestmetrics_requests",
    _REQUESTS + "RequestsPerSec",
    "Requests by API and version.",
    labels=("request", "version"),
    shape=(API_KEYS, API_VERSIONS),
)
REQUEST_ERRORS = _block.add(
    COUNTER,
    "kafka_network_requestmetrics_errors",
    _REQUESTS + "ErrorsPerSec",
    "Error codes in responses.",
    labels=("error",),
    shape=(ERROR_CODES,),
)
TOTAL_TIME = _block.add(
    HISTOGRAM,
    "kafka_network_requestmetrics_totaltimems",
    _REQUESTS + "TotalTimeMs",
    "Milliseconds from the last byte of a request to the last byte of its response.",
    labels=("request",),
    shape=(API_KEYS,),
    limits=LATENCY_LIMITS_MS,
    scale=1e-3,  # the sum is in microseconds
)

REBALANCES = _block.add(
    HISTOGRAM,
    "kafka_coordinator_group_rebalancetimems",
    "kafka.server:type=group-coordinator-metrics,name=group-completed-rebalance-count",
    "Milliseconds from the start of a group's rebalance until its members have their assignment.",
    limits=REBALANCE_LIMITS_MS,
)
CONSUMER_REBALANCES = _block.add(
    COUNTER,
    "kafka_coordinator_group_consumerrebalances",
    "kafka.server:type=group-coordinator-metrics,name=consumer-group-rebalance-count",
    "New epochs of groups of the consumer protocol, for new members, subscriptions or topics.",
)

REMAINING_LOGS = _block.add(
    GAUGE,
    "kafka_log_logmanager_remaininglogstorecover",
    "kafka.log:type=LogManager,name=remainingLogsToRecover",
    "Logs of a log directory that are not loaded yet.",
    labels=("dir",),
    shape=(LOG_DIRS,),
)
REMAINING_SEGMENTS = _block.add(
    GAUGE,
    "kafka_log_logmanager_remainingsegmentstorecover",
    "kafka.log:type=LogManager,name=remainingSegmentsToRecover",
    "Remaining segments to recover in a log directory.",
    labels=("dir",),
    shape=(LOG_DIRS,),
)

LOG_DIR_OFFLINE = _block.add(
    GAUGE,
    "kafka_log_logmanager_logdirectoryoffline",
    "kafka.log:type=LogManager,name=LogDirectoryOffline",
    "1 for an offline log directory, 0 for the others.",
    labels=("logDirectory",),
    shape=(LOG_DIRS,),
)
UNCLEANABLE_PARTITIONS = _block.add(
    GAUGE,
    "kafka_log_logcleanermanager_uncleanable_partitions_count",
    _CLEANER_MANAGER + "uncleanable-partitions-count",
    "Partitions of a log directory whose last compaction failed.",
    labels=("logDirectory",),
    shape=(LOG_DIRS,),
)
UNCLEANABLE_BYTES = _block.add(
    GAUGE,
    "kafka_log_logcleanermanager_uncleanable_bytes",
    _CLEANER_MANAGER + "uncleanable-bytes",
    "Bytes to compact in these partitions.",
    labels=("logDirectory",),
    shape=(LOG_DIRS,),
)
MAX_DIRTY_PERCENT = _block.largest(
    "kafka_log_logcleanermanager_max_dirty_percent",
    _CLEANER_MANAGER + "max-dirty-percent",
    "Dirty percentage of the dirtiest compacted log, at the last check.",
)
LAST_CLEANER_RUN = _block.largest(
    "kafka_log_logcleanermanager_time_since_last_run_ms",
    _CLEANER_MANAGER + "time-since-last-run-ms",
    "Milliseconds since the last check for logs to compact.",
    is_moment=True,
)
RECOPIED_BYTES = _block.percent(
    "kafka_log_logcleaner_cleaner_recopy_percent",
    _CLEANER + "cleaner-recopy-percent",
    "Percentage of the read bytes that the last compactions of all cleaners have written again.",
)
READ_TO_RECOPY_BYTES = RECOPIED_BYTES + 1
MAX_CLEAN_TIME = _block.largest(
    "kafka_log_logcleaner_max_clean_time_secs", _CLEANER + "max-clean-time-secs", "Seconds of the last compaction."
)
MAX_COMPACTION_DELAY = _block.largest(
    "kafka_log_logcleaner_max_compaction_delay_secs",
    _CLEANER + "max-compaction-delay-secs",
    "Seconds by which the oldest dirty record of all logs exceeds max.compaction.lag.ms, at the last check.",
)
MAX_BUFFER_UTILIZATION = _block.largest(
    "kafka_log_logcleaner_max_buffer_utilization_percent",
    _CLEANER + "max-buffer-utilization-percent",
    "Utilization of the map of the last compaction, in percent.",
)

BYTES_TO_EXPORT = _block.gauge(
    "kafkad_retention_bytes_to_export",
    _OWN,
    "Bytes of topics with cleanup.policy=delete-exported that stay only because they are not exported yet.",
)

COUNTERS: tuple[MetricRow, ...] = tuple(_block.rows)
"""All rows with counters in the blocks, by index."""

BLOCK_WORDS = 5120
"""Words of one process's block (u64): the words of the catalogue, and reserve."""
CLEANER_WORK = BLOCK_WORDS - 3
"""Three words that are no metrics: a cleaner's current work, for its next incarnation."""
assert _block.next_index <= CLEANER_WORK

GAUGE_INDEXES: tuple[int, ...] = tuple(
    row.index + word for row in COUNTERS if row.kind is GAUGE for word in range(row.words)
)
"""The words that a restarted process sets to 0; all others continue."""


COUNTED_AS = [FETCH_CONSUMER if key == FETCH else key for key in range(API_KEYS)]
"""By API key, the key under which its requests are counted."""
_REQUEST_WORDS = [REQUESTS + key * API_VERSIONS for key in COUNTED_AS]


def request_index(api_key: int, version: int) -> int:
    """The word of `REQUESTS` for one API and version; larger versions count as the last one.

    A Fetch counts as a consumer's, unless `api_key` is `FETCH_FOLLOWER`.
    """
    return _REQUEST_WORDS[api_key] + (version if 0 <= version < API_VERSIONS else API_VERSIONS - 1)


def error_index(code: int) -> int:
    """The word of `REQUEST_ERRORS` for one error code (including -1)."""
    return REQUEST_ERRORS + code + 1


def of_log_dir(row: int, log_dir: int) -> int:
    """The word of a directory, by its number in log.dirs, in a row with one word for each directory."""
    return row + min(log_dir, LOG_DIRS - 1)
