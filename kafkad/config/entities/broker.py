"""How is this broker configured?

`BrokerConfig` is the whole configuration in small frozen parts, one for each domain, so that a rule gets only the few
values it needs. Field names are the option names with `.` as `_`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kafkad.config.listeners import Endpoint, Listener
from kafkad.core.cluster.protocol_versions import ProtocolVersions
from kafkad.core.log.settings import LogConfig
from kafkad.core.settings.values import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """Listeners, their limits, and the processes behind them."""

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
    """Where data is, and how often it is flushed, checkpointed and cleaned."""

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
    """How topics are made and deleted."""

    auto_create_topics_enable: bool
    num_partitions: int
    default_replication_factor: int
    delete_topic_enable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCleanerConfig:
    """What compaction may take; all cleaners share the bytes."""

    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_buffer_size: int
    log_cleaner_io_max_bytes_per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsConfig:
    """`listener` is None when metrics are off. A default listener whose port is taken does not stop the start."""

    listener: Endpoint | None
    listener_is_default: bool
    per_partition: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginsConfig:
    """Which plugins are loaded, and which of the registered objects are used."""

    dir: str
    enabled: bool
    blocked: tuple[str, ...]
    leader_election_strategy: str
    quota_manager: str
    replication_quota_manager: str
    replica_selector: str
    """Empty: consumers read from the leader, unless they choose another replica by themselves."""
    metrics_reporters: tuple[str, ...]
    group_assignors: tuple[str, ...]
    """The first one is used for members that name none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeConfig:
    """Sockets between the processes, and shared memory."""

    dir: str
    arena_bytes: int


NO_NODE_ID = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ZookeeperTls:
    """Files are PEM. Without a truststore the system's authorities are trusted."""

    keystore: str | None
    keystore_password: str | None
    truststore: str | None
    checks_host_name: bool
    versions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """The cluster that this broker joins; `zookeeper_connect` may end with the path of its root."""

    zookeeper_connect: str
    zookeeper_session_timeout_ms: int
    zookeeper_connection_timeout_ms: int
    zookeeper_max_in_flight_requests: int
    zookeeper_tls: ZookeeperTls | None
    """None: connections are plain."""
    zookeeper_set_acl: bool
    inter_broker_listener: str
    """The name of the listener that brokers use among themselves."""
    control_plane_listener: str
    """Where the controller asks those that have it; the same, unless control.plane.listener.name is set."""
    reserved_broker_max_id: int
    """Numbers that ZooKeeper hands out are greater."""
    versions: ProtocolVersions
    """Of what brokers ask each other, by `inter.broker.protocol.version`."""
    suspect_refused_ms: int
    """How long a host refuses connections until its broker counts as gone; 0: until its session ends."""

    @property
    def broker_listeners(self) -> frozenset[str]:
        """Where requests of brokers and of the controller are taken."""
        return frozenset((self.inter_broker_listener, self.control_plane_listener))


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """What the file, cluster-wide changes and changes of this broker set; a later one of these three wins."""

    static: Mapping[str, str]
    cluster: Mapping[str, str]
    broker: Mapping[str, str]
    defaults: Mapping[str, Value]

    @property
    def written(self) -> Mapping[str, str]:
        """Every option that is set anywhere, as text."""
        return {**self.static, **self.cluster, **self.broker}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """The whole configuration; `values` has each option's value by name, `texts` what was written and where."""

    node_id: int
    """NO_NODE_ID: that of meta.properties, or one that ZooKeeper has yet to hand out."""
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
    """None: a single broker, whose store is embedded."""
    values: Mapping[str, Value]
    texts: Texts
    notices: tuple[str, ...]

    @property
    def protected_listeners(self) -> frozenset[str]:
        """Those of brokers, if clients have others: limits on all connections together do not hold there."""
        between = self.cluster.broker_listeners if self.cluster is not None else frozenset()
        return between if any(each.name not in between for each in self.network.listeners) else frozenset()
