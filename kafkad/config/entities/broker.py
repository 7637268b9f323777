"""The configuration of this broker.

`BrokerConfig` consists of frozen parts, one for each domain, so that a rule gets only the values that it uses. Field
names are option names with `_` instead of `.`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kafkad.config.listeners import Endpoint, Listener
from kafkad.core.cluster.protocol_versions import ProtocolVersions
from kafkad.core.log.settings import LogConfig
from kafkad.core.settings.values import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """Listeners, their limits, and the numbers of processes."""

    listeners: tuple[Listener, ...]
    num_network_threads: int
    num_io_threads: int
    socket_send_buffer_bytes: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    socket_listen_backlog_size: int
    queued_max_request_bytes: int
    connections_max_idle_ms: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: Mapping[str, int]
    max_connection_creation_rate: int
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirsConfig:
    """Log directories, and intervals of flushes, checkpoints and retention checks."""

    log_dirs: tuple[str, ...]
    log_cleaner_threads: int
    log_retention_check_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_initial_task_delay_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int
    num_recovery_threads_per_data_dir: int
    num_replica_alter_log_dirs_threads: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsConfig:
    """Creation and deletion of topics."""

    auto_create_topics_enable: bool
    num_partitions: int
    default_replication_factor: int
    delete_topic_enable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCleanerConfig:
    """Limits of compaction; all cleaners together use at most these bytes."""

    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_buffer_size: int
    log_cleaner_io_max_bytes_per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsConfig:
    """`listener` is None if metrics are off. A default listener with a port in use does not stop the start."""

    listener: Endpoint | None
    listener_is_default: bool
    per_partition: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginsConfig:
    """The plugins to load, and the registered objects to use."""

    dir: str
    enabled: bool
    blocked: tuple[str, ...]
    leader_election_strategy: str
    quota_manager: str
    replication_quota_manager: str
    replica_selector: str
    """Empty: no preferred read replica is returned to consumers."""
    metrics_reporters: tuple[str, ...]
    group_assignors: tuple[str, ...]
    """The first assignor is the default for members without a choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeConfig:
    """Folder of the sockets between processes, and size of shared memory."""

    dir: str
    arena_bytes: int


NO_NODE_ID = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ZookeeperTls:
    """PEM files. Without a truststore the system's certificate authorities are trusted."""

    keystore: str | None
    keystore_password: str | None
    truststore: str | None
    checks_host_name: bool
    versions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """The cluster of this broker; `zookeeper_connect` may have a chroot."""

    zookeeper_connect: str
    zookeeper_session_timeout_ms: int
    zookeeper_connection_timeout_ms: int
    zookeeper_max_in_flight_requests: int
    zookeeper_tls: ZookeeperTls | None
    """None: connections without TLS."""
    zookeeper_set_acl: bool
    inter_broker_listener: str
    """The name of the listener for requests between brokers."""
    control_plane_listener: str
    """The name of the listener for requests of the controller; by default the inter-broker listener."""
    reserved_broker_max_id: int
    """Ids assigned by ZooKeeper are greater."""
    versions: ProtocolVersions
    """The versions of requests between brokers, by `inter.broker.protocol.version`."""
    suspect_refused_ms: int
    """Time of refused connections after which a broker counts as failed; 0: only the end of its session counts."""

    @property
    def broker_listeners(self) -> frozenset[str]:
        """The listeners for requests of brokers and of the controller."""
        return frozenset((self.inter_broker_listener, self.control_plane_listener))


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """The texts of options in the file, in cluster-wide changes and in changes of this broker; later ones win."""

    static: Mapping[str, str]
    cluster: Mapping[str, str]
    broker: Mapping[str, str]
    defaults: Mapping[str, Value]

    @property
    def written(self) -> Mapping[str, str]:
        """The effective texts of all options that are set."""
        return {**self.static, **self.cluster, **self.broker}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """The whole configuration; `values` has the values of all options, `texts` their texts by source."""

    node_id: int
    """NO_NODE_ID: the id is in meta.properties, or ZooKeeper will assign it."""
    rack: str | None
    network: NetworkConfig
    log_dirs: LogDirsConfig
    log_cleaner: LogCleanerConfig
    log: LogConfig
    topics: TopicsConfig
    metrics: MetricsConfig
    plugins: PluginsConfig
    runtime: RuntimeConfig
    cluster: ClusterConfig | None
    """None: a single broker with an embedded store."""
    values: Mapping[str, Value]
    texts: Texts
    notices: tuple[str, ...]

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener for requests between brokers. A single broker gets none; it names its first one."""
        return self.cluster.inter_broker_listener if self.cluster is not None else self.network.listeners[0].name

    @property
    def protected_listeners(self) -> frozenset[str]:
        """The listeners of brokers, if clients have others: max.connections does not apply to them."""
        between = self.cluster.broker_listeners if self.cluster is not None else frozenset()
        return between if any(each.name not in between for each in self.network.listeners) else frozenset()
