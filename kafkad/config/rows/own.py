"""Options that only kafkad has."""

from kafkad.config.rows.reasons import ONE_STORE
from kafkad.core.settings.limits import Between, NotEmpty, OneOf
from kafkad.core.settings.option import Setting
from kafkad.core.settings.rows import BOOLEAN, CLUSTER_WIDE, HIGH, INT, LIST, LONG, LOW, MEDIUM, READ_ONLY, STRING, row

# fmt: off
SETTINGS: tuple[Setting, ...] = (
    row("kafkad.plugins.dir", STRING, "", None, MEDIUM, READ_ONLY,
        "Folder whose Python files are loaded as plugins; empty means none."),
    row("kafkad.plugins.enabled", BOOLEAN, True, None, LOW, READ_ONLY,
        "Loads plugins from installed packages and the folder; the built-in ones are always there."),
    row("kafkad.plugins.blocked", LIST, (), None, LOW, READ_ONLY,
        "Names of plugins, built-in ones too, that are not loaded; kafkad plugins list shows the names."),
    row("kafkad.leader.election.strategy", STRING, "preferred", NotEmpty(), LOW, READ_ONLY,
        "Name of the strategy that picks partition leaders."),
    row("kafkad.quota.manager", STRING, "client-id", NotEmpty(), LOW, READ_ONLY,
        "Name of the quota manager."),
    row("kafkad.replication.quota.manager", STRING, "throttled-rate", NotEmpty(), LOW, READ_ONLY,
        "Name of the quota manager of throttled replicas."),
    row("kafkad.metrics.reporters", LIST, ("prometheus",), None, MEDIUM, READ_ONLY,
        "Names of the metrics reporters to run."),
    row("kafkad.metrics.listener", STRING, "127.0.0.1:9308", None, MEDIUM, READ_ONLY,
        "Address of the pages /metrics (Prometheus) and /health, as host:port; empty turns them off. One that is set "
        "has to be free; the default may be somebody else's, and there are no pages then."),
    row("kafkad.metrics.per.partition", BOOLEAN, False, None, LOW, READ_ONLY,
        "Shows size, first and next offset of each partition, and how far a replica is behind: up to five series for "
        "each, where there are two for a topic."),
    row("kafkad.coordination.store", STRING, "embedded", OneOf(("embedded",)), HIGH, READ_ONLY,
        "Where cluster state is kept; embedded is a database in the first log directory.", status=ONE_STORE),
    row("kafkad.runtime.dir", STRING, None, None, LOW, READ_ONLY,
        "Folder for the sockets between the processes; unset means the system's or the user's runtime folder."),
    row("kafkad.arena.bytes", LONG, 134_217_728, Between(1048576, 1099511627776), MEDIUM, READ_ONLY,
        "Memory of each network process for produce requests that are under way."),
    row("kafkad.log.dirs.min.free.bytes", LONG, None, Between(0), MEDIUM, CLUSTER_WIDE,
        "Free room of a log directory below which clients can't produce to it and get KAFKA_STORAGE_ERROR; 0 is no "
        "limit, unset means 256 MB, or a twentieth of the file system where that is less."),
    row("kafkad.log.flush.acks", BOOLEAN, False, None, MEDIUM, CLUSTER_WIDE,
        "Nothing that is written to a log is acknowledged or shown to consumers before it is on disk, whatever "
        "flush.messages says; one sync of a log serves all that came before it."),
    row("kafkad.suspect.refused.ms", INT, 500, Between(0), MEDIUM, READ_ONLY,
        "In a cluster: how long the host of a broker that has answered before refuses connections until the broker "
        "counts as gone, so that nobody waits for its session to end; 0 waits, as Apache Kafka does."),
    row("kafkad.quota.producer.byte.rate.default", LONG, -1, Between(-1), MEDIUM, CLUSTER_WIDE,
        "Bytes per second that each client id may produce; -1 is no limit."),
    row("kafkad.quota.consumer.byte.rate.default", LONG, -1, Between(-1), MEDIUM, CLUSTER_WIDE,
        "Bytes per second that each client id may fetch; -1 is no limit."),
)
# fmt: on
