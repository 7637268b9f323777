"""How long is a client throttled, given its recent traffic? Kafka's ClientQuotaManager, for one direction.

A client's quota is one number for the whole broker, but its connections are in several network processes. Each process
sends its counts to the others (`drain_local`, `record_remote`), so every process uses the sum, at most one exchange
late. A quota divided by the number of processes would starve a client with one connection.
"""

from collections.abc import Mapping

from kafkad.core.quotas.rate import SampledRate

QuotaKey = tuple[str | None, str]
"""(user, client id); the user is None in limits for only a client id."""

IDLE_EXPIRY_MS = 3_600_000
MAX_THROTTLE_MS = 2**31 - 1
"""The largest `throttle_time_ms`."""


class ClientQuotas:
    """The windows of all clients with a limit, for one direction (produce or fetch)."""

    def __init__(self, *, num_samples: int = 11, window_ms: int = 1_000) -> None:
        self._num_samples = num_samples
        self._window_ms = window_ms
        self._default: float | None = None
        self._limits: Mapping[QuotaKey, float | None] = {}
        self._rates: dict[QuotaKey, SampledRate] = {}
        self._local: dict[QuotaKey, int] = {}
        self._next_sweep_ms = 0
        self.is_unlimited = True

    def __len__(self) -> int:
        """The number of clients with recorded traffic."""
        return len(self._rates)

    @property
    def windows(self) -> tuple[int, int]:
        """The number of samples, and their length in milliseconds."""
        return self._num_samples, self._window_ms

    def set_limits(self, default: float | None, limits: Mapping[QuotaKey, float | None]) -> None:
        """Bytes per second: `default` for each client, `limits` for single clients; None: no limit."""
        self._default = default
        self._limits = dict(limits)
        self.is_unlimited = default is None and all(limit is None for limit in limits.values())

    def limit_of(self, key: QuotaKey) -> float | None:
        return self._limits.get(key, self._default)

    def record(self, key: QuotaKey, amount: int, now_ms: int) -> int:
        """Count `amount` bytes; returns the milliseconds until the client is within its quota again."""
        limit = self.limit_of(key)
        if limit is None:
            return 0
        rate = self._rate_of(key, now_ms)
        rate.record(amount, now_ms)
        self._local[key] = self._local.get(key, 0) + amount
        total, window_ms = rate.measure(now_ms)
        return throttle_ms(total, window_ms, limit)

    def unrecord(self, key: QuotaKey, amount: int, now_ms: int) -> None:
        """Subtract `amount` bytes that were counted but not sent."""
        rate = self._rates.get(key)
        if rate is not None:
            rate.record(-amount, now_ms)
            self._local[key] = self._local.get(key, 0) - amount

    def record_remote(self, key: QuotaKey, amount: int, now_ms: int) -> None:
        """Count bytes of another process of this broker; they are not forwarded."""
        if amount and self.limit_of(key) is not None:
            self._rate_of(key, now_ms).record(amount, now_ms)

    def drain_local(self) -> dict[QuotaKey, int]:
        """The bytes counted here since the last call."""
        local, self._local = self._local, {}
        return local

    def max_in_window(self, key: QuotaKey) -> int | None:
        """A larger amount at once is throttled even after a long idle time; None without a limit."""
        limit = self.limit_of(key)
        if limit is None:
            return None
        return int(limit * (self._num_samples - 1) * self._window_ms / 1000)

    def _rate_of(self, key: QuotaKey, now_ms: int) -> SampledRate:
        if now_ms >= self._next_sweep_ms:
            self._remove_idle(now_ms)
        rate = self._rates.get(key)
        if rate is None:
            rate = SampledRate(num_samples=self._num_samples, window_ms=self._window_ms, now_ms=now_ms)
            self._rates[key] = rate
        return rate

    def _remove_idle(self, now_ms: int) -> None:
        """Remove clients that were idle for an hour: client ids may be unlimited in number."""
        self._next_sweep_ms = now_ms + IDLE_EXPIRY_MS // 10
        idle = [key for key, rate in self._rates.items() if now_ms - rate.last_ms >= IDLE_EXPIRY_MS]
        for key in idle:
            del self._rates[key]
            self._local.pop(key, None)


def throttle_ms(total: int, window_ms: int, limit: float) -> int:
    """The X that brings `total` bytes in `window_ms` down to `limit`: rate * W / (W + X) = limit (KIP-13)."""
    rate = total * 1000 / window_ms
    if rate <= limit:
        return 0
    if limit == 0:
        return MAX_THROTTLE_MS
    return min(int((rate - limit) / limit * window_ms + 0.5), MAX_THROTTLE_MS)
