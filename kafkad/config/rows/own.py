"""Options that only kafkad has."""

from kafkad.config.rows.reasons import ONE_STORE
from kafkad.core.settings.limits import Between, NotEmpty, OneOf
from kafkad.core.settings.option import Setting
from kafkad.core.settings.rows import BOOLEAN, CLUSTER_WIDE, HIGH, INT, LIST, LONG, LOW, MEDIUM, READ_ONLY, STRING, row

# fmt: off
SETTINGS: tuple[Setting, ...] = (
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
# fmt: on
