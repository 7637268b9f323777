"""Options of the broker: its identity, what only kafkad has, quotas, metrics."""

from kafkad.config.rows.reasons import (
    JMX,
    JVM_METRICS,
    JVM_QUOTA,
    KRAFT,
    MUTATIONS,
    NO_WINDOWS,
    ONE_STORE,
    PLUGIN_ONLY,
    PROMETHEUS,
)
from kafkad.core.settings.limits import Between, NotEmpty, OneOf
from kafkad.core.settings.option import Setting
from kafkad.core.settings.rows import (
    BOOLEAN,
    CLASS,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    LOW,
    MEDIUM,
    READ_ONLY,
    STRING,
    row,
)

# fmt: off
IDENTITY_SETTINGS: tuple[Setting, ...] = (
    row("node.id", INT, 1, Between(0), HIGH, READ_ONLY,
        "Id of this broker; broker.id is the old name of the option. Without either, ZooKeeper assigns an id to a "
        "broker in a cluster."),
    row("broker.id", INT, -1, None, HIGH, READ_ONLY,
        "Old name of node.id; if both are set they must be equal."),
    row("broker.id.generation.enable", BOOLEAN, True, None, MEDIUM, READ_ONLY,
        "Lets ZooKeeper assign broker ids."),
    row("reserved.broker.max.id", INT, 1000, Between(0), MEDIUM, READ_ONLY,
        "Largest id reserved for brokers with a configured id."),
    row("inter.broker.protocol.version", STRING, "3.9-IV0", None, MEDIUM, READ_ONLY,
        "Protocol version between brokers, 2.8 to 3.9; that of the oldest broker of the cluster."),
    row("controlled.shutdown.enable", BOOLEAN, True, None, MEDIUM, READ_ONLY,
        "Moves leadership away before a stop."),
    row("controlled.shutdown.max.retries", INT, 3, None, MEDIUM, READ_ONLY,
        "Attempts to move leadership away before a stop."),
    row("controlled.shutdown.retry.backoff.ms", LONG, 5000, None, MEDIUM, READ_ONLY,
        "Pause between attempts to move leadership away."),
    row("controller.socket.timeout.ms", INT, 30_000, None, MEDIUM, READ_ONLY,
        "Timeout of requests between the controller and other brokers."),
    row("eligible.leader.replicas.enable", BOOLEAN, False, None, HIGH, READ_ONLY,
        "Keeps a list of replicas that may lead after the last in-sync replica is lost.", status=KRAFT),
)

OWN_SETTINGS: tuple[Setting, ...] = (
    row("kafkad.plugins.dir", STRING, "", None, MEDIUM, READ_ONLY,
        "Folder with Python files that are loaded as plugins; empty means none."),
    row("kafkad.plugins.enabled", BOOLEAN, True, None, LOW, READ_ONLY,
        "Loads plugins from installed packages and the folder, in addition to the built-in ones."),
    row("kafkad.plugins.blocked", LIST, (), None, LOW, READ_ONLY,
        "Names of plugins that are not loaded, including built-in ones; kafkad plugins list shows the names."),
    row("kafkad.leader.election.strategy", STRING, "preferred", NotEmpty(), LOW, READ_ONLY,
        "Name of the strategy for leader elections."),
    row("kafkad.quota.manager", STRING, "client-id", NotEmpty(), LOW, READ_ONLY,
        "Name of the quota manager."),
    row("kafkad.replication.quota.manager", STRING, "throttled-rate", NotEmpty(), LOW, READ_ONLY,
        "Name of the quota manager of throttled replicas."),
    row("kafkad.metrics.reporters", LIST, ("prometheus",), None, MEDIUM, READ_ONLY,
        "Names of the metrics reporters to run."),
    row("kafkad.metrics.listener", STRING, "127.0.0.1:9308", None, MEDIUM, READ_ONLY,
        "Address of the pages /metrics (Prometheus) and /health, as host:port; empty turns them off. If the "
        "configured address is in use, the start fails; if the default is in use, there are no pages."),
    row("kafkad.metrics.per.partition", BOOLEAN, False, None, LOW, READ_ONLY,
        "Adds size, first and next offset, and replica lag of each partition: up to five series for each "
        "partition, otherwise two for each topic."),
    row("kafkad.coordination.store", STRING, "embedded", OneOf(("embedded",)), HIGH, READ_ONLY,
        "Store of the cluster state; embedded is a database in the first log directory.", status=ONE_STORE),
    row("kafkad.runtime.dir", STRING, None, None, LOW, READ_ONLY,
        "Folder for the sockets between the processes; unset means the system's or the user's runtime folder."),
    row("kafkad.arena.bytes", LONG, 134_217_728, Between(1048576, 1099511627776), MEDIUM, READ_ONLY,
        "Memory of each network process for produce requests in progress."),
    row("kafkad.log.dirs.min.free.bytes", LONG, None, Between(0), MEDIUM, CLUSTER_WIDE,
        "Free space of a log directory below which produce requests to it fail with KAFKA_STORAGE_ERROR; 0 is no "
        "limit, unset means 256 MB or a twentieth of the file system, whichever is less."),
    row("kafkad.log.flush.acks", BOOLEAN, False, None, MEDIUM, CLUSTER_WIDE,
        "Syncs records before they are acknowledged or visible to consumers, whatever flush.messages is; one sync "
        "of a log covers all earlier records."),
    row("kafkad.suspect.refused.ms", INT, 500, Between(0), MEDIUM, READ_ONLY,
        "In a cluster: time of refused connections after which a broker that has responded before counts as failed, "
        "before its session ends; 0 waits for the end of the session, as Apache Kafka does."),
    row("kafkad.quota.producer.byte.rate.default", LONG, -1, Between(-1), MEDIUM, CLUSTER_WIDE,
        "Bytes per second that each client id may produce; -1 is unlimited."),
    row("kafkad.quota.consumer.byte.rate.default", LONG, -1, Between(-1), MEDIUM, CLUSTER_WIDE,
        "Bytes per second that each client id may fetch; -1 is unlimited."),
)

QUOTA_SETTINGS: tuple[Setting, ...] = (
    row("quota.window.num", INT, 11, Between(1), LOW, READ_ONLY,
        "Windows that a client's rate is averaged over."),
    row("quota.window.size.seconds", INT, 1, Between(1), LOW, READ_ONLY,
        "Length of one window of a client's rate."),
    row("quota.producer.default", LONG, LONG_MAX, Between(1), HIGH, READ_ONLY,
        "Old key: bytes per second that each client id may produce."),
    row("quota.consumer.default", LONG, LONG_MAX, Between(1), HIGH, READ_ONLY,
        "Old key: bytes per second that each client id may fetch."),
    row("controller.quota.window.num", INT, 11, Between(1), LOW, READ_ONLY,
        "Windows that the rate of topic changes is averaged over.", status=MUTATIONS),
    row("controller.quota.window.size.seconds", INT, 1, Between(1), LOW, READ_ONLY,
        "Length of one window of the rate of topic changes.", status=MUTATIONS),
    row("replication.quota.window.num", INT, 11, Between(1), LOW, READ_ONLY,
        "Windows that the replication rate is averaged over."),
    row("replication.quota.window.size.seconds", INT, 1, Between(1), LOW, READ_ONLY,
        "Length of one window of the replication rate."),
    row("alter.log.dirs.replication.quota.window.num", INT, 11, Between(1), LOW, READ_ONLY,
        "Windows that the rate of moves between directories is averaged over.", status=NO_WINDOWS),
    row("alter.log.dirs.replication.quota.window.size.seconds", INT, 1, Between(1), LOW, READ_ONLY,
        "Length of one window of the rate of moves between directories.", status=NO_WINDOWS),
    row("client.quota.callback.class", CLASS, None, None, LOW, READ_ONLY,
        "JVM class that decides quotas.", status=JVM_QUOTA),
)

METRICS_SETTINGS: tuple[Setting, ...] = (
    row("metric.reporters", LIST, (), None, LOW, CLUSTER_WIDE,
        "JVM classes that report metrics.", status=JVM_METRICS),
    row("auto.include.jmx.reporter", BOOLEAN, True, None, LOW, READ_ONLY,
        "Adds the JMX reporter.", status=JMX),
    row("kafka.metrics.reporters", LIST, (), None, LOW, READ_ONLY,
        "JVM classes that report the older kind of metrics.", status=JVM_METRICS),
    row("kafka.metrics.polling.interval.secs", INT, 10, Between(1), LOW, READ_ONLY,
        "Interval of reporters that are polled (Prometheus is not)."),
    row("kafka.csv.metrics.dir", STRING, None, None, LOW, READ_ONLY,
        "Folder of a reporter that writes CSV files.", status=PLUGIN_ONLY),
    row("kafka.csv.metrics.reporter.enabled", BOOLEAN, True, None, LOW, READ_ONLY,
        "Whether that reporter writes anything, when kafkad.metrics.reporters names it.", status=PLUGIN_ONLY),
    row("metrics.num.samples", INT, 2, Between(1), LOW, READ_ONLY,
        "Samples that a rate is averaged over.", status=PROMETHEUS),
    row("metrics.recording.level", STRING, "INFO", None, LOW, READ_ONLY,
        "How detailed the recorded metrics are.", status=PROMETHEUS),
    row("metrics.sample.window.ms", LONG, 30_000, Between(1), LOW, READ_ONLY,
        "Length of one sample of a rate.", status=PROMETHEUS),
)
# fmt: on
