"""Options of quotas for clients and replication."""

from kafkad.config.rows.reasons import JVM_QUOTA, MUTATIONS, NO_WINDOWS
from kafkad.core.settings.limits import Between
from kafkad.core.settings.option import Setting
from kafkad.core.settings.rows import CLASS, HIGH, INT, LONG, LONG_MAX, LOW, READ_ONLY, row

# fmt: off
SETTINGS: tuple[Setting, ...] = (
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
# fmt: on
