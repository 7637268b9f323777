"""Which transactional ids expire? (transactional.id.expiration.ms)

The scan runs at an interval, like Apache Kafka's. Ids are ordered by their last use, so a scan costs only as much as it
finds.
"""

from kafkad.core.coordinator.shard import Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.transactions.config import TransactionConfig
from kafkad.core.transactions.metadata_cache import TransactionMetadataCache
from kafkad.core.transactions.records import AnyTransactionRecord, TransactionRemoved
from kafkad.core.transactions.state import TransactionState

EXPIRATION_KEY = ("expiration", "")
BATCH = 1_000
"""Maximum number of tombstones in one step; the next step follows at once."""


def expire(cache: TransactionMetadataCache, config: TransactionConfig, moment: Moment) -> Outcome[AnyTransactionRecord]:
    """Tombstones for expired ids, and the timer of the next scan."""
    expired = _expired_ids(cache, moment.wall_ms - config.transactional_id_expiration_ms)
    next_scan = (EXPIRATION_KEY, moment.monotonic_ms + config.expiration_interval_ms)
    if not expired:
        return Outcome(timers=[next_scan])
    for transactional_id in expired:
        cache.begin(transactional_id, TransactionState.DEAD)

    def after(code: ErrorCode, now: Moment) -> Outcome[AnyTransactionRecord]:
        for transactional_id in expired:
            cache.settle(transactional_id)
        return Outcome() if code is ErrorCode.NONE else Outcome(timers=[next_scan])

    return Outcome(
        records=[TransactionRemoved(transactional_id=transactional_id) for transactional_id in expired],
        timers=[(EXPIRATION_KEY, moment.monotonic_ms) if len(expired) == BATCH else next_scan],
        after=after,
        log_lines=[f"expired {len(expired)} transactional ids after transactional.id.expiration.ms"],
    )


def _expired_ids(cache: TransactionMetadataCache, limit_ms: int) -> list[str]:
    found: list[str] = []
    for record in cache.oldest_first():
        if record.last_update_ms > limit_ms or len(found) == BATCH:
            break
        if record.state.may_expire and not cache.is_pending(record.transactional_id):
            found.append(record.transactional_id)
    return found
