"""When a broker is a candidate for the next controller term, and what the elected controller does periodically.

Each timer is called in each pass of the loop, which may sleep until its `next_deadline_ms`. `is_due` is true once.
"""

from kafkad.config import BrokerConfig
from kafkad.core.coordination_store import CoordinationError, NotPermitted, UnexpectedResponse

TERM_RETRY_MS = 1_000


class NextTerm:
    """The broker is a candidate again at once, or after a pause if the error may persist."""

    def __init__(self) -> None:
        self.next_deadline_ms: int | None = None

    def ended(self, error: CoordinationError, now_ms: int) -> None:
        may_persist = isinstance(error, UnexpectedResponse | NotPermitted)
        self.next_deadline_ms = now_ms + TERM_RETRY_MS if may_persist else now_ms

    def is_due(self, now_ms: int) -> bool:
        if self.next_deadline_ms is None or self.next_deadline_ms > now_ms:
            return False
        self.next_deadline_ms = None
        return True


FIRST_CHECK_MS = 5_000
"""As Apache Kafka's."""


class LeaderBalance:
    """Moves leaders back to preferred replicas (auto.leader.rebalance.enable): soon after the controller's election,
    then periodically.
    """

    def __init__(self, config: BrokerConfig) -> None:
        values = config.values
        interval_s, percentage = (
            values["leader.imbalance.check.interval.seconds"],
            values["leader.imbalance.per.broker.percentage"],
        )
        assert isinstance(interval_s, int) and isinstance(percentage, int), "they are integer options"
        self._is_enabled = values["auto.leader.rebalance.enable"] is True
        self._interval_ms = interval_s * 1000
        self.percentage = percentage
        """The percentage of partitions that a broker need not lead."""
        self.next_deadline_ms: int | None = None

    def is_due(self, is_elected: bool, now_ms: int) -> bool:
        if not is_elected or not self._is_enabled:
            self.next_deadline_ms = None
        elif self.next_deadline_ms is None:
            self.next_deadline_ms = now_ms + FIRST_CHECK_MS
        elif self.next_deadline_ms <= now_ms:
            self.next_deadline_ms = now_ms + self._interval_ms
            return True
        return False


DELETION_RETRY_MS = 60_000


class DeletionRetries:
    """Retries failed deletions of replicas a minute later, after a full or a failed disk.

    Apache Kafka retries when the broker restarts, or when another controller is elected.
    """

    def __init__(self) -> None:
        self.next_deadline_ms: int | None = None

    def is_due(self, are_there_any: bool, now_ms: int) -> bool:
        if not are_there_any:
            self.next_deadline_ms = None
        elif self.next_deadline_ms is None:
            self.next_deadline_ms = now_ms + DELETION_RETRY_MS
        elif self.next_deadline_ms <= now_ms:
            self.next_deadline_ms = None
            return True
        return False
