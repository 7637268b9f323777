"""When the elected controller moves leaders back to preferred replicas (auto.leader.rebalance.enable): soon after its
election, then periodically.
"""

from collections.abc import Callable

from kafkad.config import BrokerConfig

FIRST_CHECK_MS = 5_000
"""As Apache Kafka's."""


class LeaderBalance:
    """`balance` gets the percentage of partitions that a broker need not lead."""

    def __init__(self, config: BrokerConfig, balance: Callable[[int], None]) -> None:
        values = config.values
        interval_s, percentage = (
            values["leader.imbalance.check.interval.seconds"],
            values["leader.imbalance.per.broker.percentage"],
        )
        assert isinstance(interval_s, int) and isinstance(percentage, int), "they are integer options"
        self._is_enabled = values["auto.leader.rebalance.enable"] is True
        self._interval_ms = interval_s * 1000
        self._percentage = percentage
        self._balance = balance
        self.next_deadline_ms: int | None = None

    def tick(self, is_elected: bool, now_ms: int) -> None:
        if not is_elected or not self._is_enabled:
            self.next_deadline_ms = None
        elif self.next_deadline_ms is None:
            self.next_deadline_ms = now_ms + FIRST_CHECK_MS
        elif self.next_deadline_ms <= now_ms:
            self.next_deadline_ms = now_ms + self._interval_ms
            self._balance(self._percentage)
