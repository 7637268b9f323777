"""Options of transactions."""

from kafkad.config.rows.reasons import LOAD_STEPS, ONE_PHASE
from kafkad.core.settings.limits import Between
from kafkad.core.settings.option import Setting
from kafkad.core.settings.rows import BOOLEAN, CLUSTER_WIDE, HIGH, INT, LOW, READ_ONLY, SHORT, row

# fmt: off
SETTINGS: tuple[Setting, ...] = (
    row("transaction.max.timeout.ms", INT, 900_000, Between(1), HIGH, READ_ONLY,
        "Maximum transaction timeout of a producer."),
    row("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10_000,
        Between(1), LOW, READ_ONLY,
        "Pause before the abort of an expired transaction is retried; the first abort is at its timeout."),
    row("transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3_600_000,
        Between(1), LOW, READ_ONLY,
        "Interval of checks for expired transactional ids."),
    row("transaction.partition.verification.enable", BOOLEAN, True, None, LOW, CLUSTER_WIDE,
        "Verifies with the coordinator that a partition is part of the transaction."),
    row("transaction.two.phase.commit.enable", BOOLEAN, False, None, LOW, READ_ONLY,
        "Lets an external coordinator decide transactions.", status=ONE_PHASE),
    row("transaction.state.log.load.buffer.size", INT, 5_242_880, Between(1), HIGH, READ_ONLY,
        "Bytes read at a time when transactions are loaded.", status=LOAD_STEPS),
    row("transaction.state.log.min.isr", INT, 2, Between(1), HIGH, READ_ONLY,
        "Minimum number of in-sync replicas of the transaction topic."),
    row("transaction.state.log.num.partitions", INT, 50, Between(1), HIGH, READ_ONLY,
        "Partitions of the transaction topic."),
    row("transaction.state.log.replication.factor", SHORT, 3, Between(1), HIGH, READ_ONLY,
        "Replicas of the transaction topic."),
    row("transaction.state.log.segment.bytes", INT, 104_857_600, Between(1), HIGH, READ_ONLY,
        "Segment size of the transaction topic."),
    row("transactional.id.expiration.ms", INT, 604_800_000, Between(1), HIGH, READ_ONLY,
        "Idle time after which a transactional id is removed."),
    row("add.partitions.to.txn.retry.backoff.ms", INT, 20, Between(1), HIGH, READ_ONLY,
        "First pause before adding a partition to a busy transaction is retried."),
    row("add.partitions.to.txn.retry.backoff.max.ms", INT, 100, Between(0), HIGH, READ_ONLY,
        "Total time of these retries."),
)
# fmt: on
