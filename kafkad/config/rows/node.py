"""Options of the broker's identity, and of other brokers."""

from kafkad.config.rows.reasons import KRAFT
from kafkad.core.settings.limits import Between
from kafkad.core.settings.option import Setting
from kafkad.core.settings.rows import BOOLEAN, HIGH, INT, LONG, MEDIUM, READ_ONLY, STRING, row

# fmt: off
SETTINGS: tuple[Setting, ...] = (
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
# fmt: on
