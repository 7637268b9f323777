"""Options of the broker's identity and of its neighbours."""

from kafkad.config.rows.reasons import KRAFT
from kafkad.core.settings.limits import Between
from kafkad.core.settings.option import Setting
from kafkad.core.settings.rows import BOOLEAN, HIGH, INT, LONG, MEDIUM, READ_ONLY, STRING, row

# fmt: off
SETTINGS: tuple[Setting, ...] = (
    row("node.id", INT, 1, Between(0), HIGH, READ_ONLY,
        "Number of this broker; broker.id is its old name. Without either, one on ZooKeeper gets its number there."),
    row("broker.id", INT, -1, None, HIGH, READ_ONLY,
        "Old name of node.id; when both are set they have to agree."),
    row("broker.id.generation.enable", BOOLEAN, True, None, MEDIUM, READ_ONLY,
        "Lets ZooKeeper hand out broker numbers."),
    row("reserved.broker.max.id", INT, 1000, Between(0), MEDIUM, READ_ONLY,
        "Largest number that is kept for brokers with a configured id."),
    row("inter.broker.protocol.version", STRING, "3.9-IV0", None, MEDIUM, READ_ONLY,
        "Protocol version that brokers of a cluster speak among themselves, 2.8 to 3.9; the oldest one's."),
    row("controlled.shutdown.enable", BOOLEAN, True, None, MEDIUM, READ_ONLY,
        "Moves leadership away before a stop."),
    row("controlled.shutdown.max.retries", INT, 3, None, MEDIUM, READ_ONLY,
        "Tries to move leadership away before a stop."),
    row("controlled.shutdown.retry.backoff.ms", LONG, 5000, None, MEDIUM, READ_ONLY,
        "Pause between tries to move leadership away."),
    row("controller.socket.timeout.ms", INT, 30_000, None, MEDIUM, READ_ONLY,
        "How long the controller waits for an answer of a broker, and a broker for one of the controller."),
    row("eligible.leader.replicas.enable", BOOLEAN, False, None, HIGH, READ_ONLY,
        "Keeps a list of replicas that may lead after the last one in sync is lost.", status=KRAFT),
)
# fmt: on
