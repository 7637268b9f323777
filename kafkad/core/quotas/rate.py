"""Kafka's sampled rate: a sum over a few windows, divided by their length.

The length is never less than all windows but the last, so that a new client is not measured by its first second alone.
`num_samples + 1` are kept, the oldest overlapping the start of the observed time.
"""


class _Sample:
    __slots__ = ("amount", "last_ms", "start_ms")

    def __init__(self, now_ms: int) -> None:
        self.restart(now_ms)

    def restart(self, now_ms: int) -> None:
        self.amount = 0
        self.start_ms = now_ms
        self.last_ms = now_ms


class SampledRate:
    """Mutable and slotted: one per client with a quota, updated by each of its requests."""

    __slots__ = (
        "_current",
        "_num_samples",
        "_oldest_ms",
        "_review_ms",
        "_samples",
        "_total",
        "_window_ms",
        "last_ms",
    )

    def __init__(self, *, num_samples: int, window_ms: int, now_ms: int) -> None:
        self._num_samples = num_samples
        self._window_ms = window_ms
        self._samples = [_Sample(now_ms)]
        self._current = 0
        self._total = 0
        self._oldest_ms = now_ms
        # No sample expires earlier, so that total and oldest sample stay valid until then.
        self._review_ms = now_ms
        self.last_ms = now_ms

    def record(self, amount: int, now_ms: int) -> None:
        """Count `amount` now; a negative amount cancels an earlier count."""
        sample = self._samples[self._current]
        if now_ms - sample.start_ms >= self._window_ms:
            sample = self._next_sample(now_ms)
        sample.amount += amount
        self._total += amount
        sample.last_ms = now_ms
        self.last_ms = now_ms

    def measure(self, now_ms: int) -> tuple[int, int]:
        """(sum, milliseconds): the rate is their quotient."""
        if now_ms >= self._review_ms:
            self._review(now_ms)
        elapsed_ms = now_ms - self._oldest_ms
        missing_windows = self._num_samples - 1 - elapsed_ms // self._window_ms
        if missing_windows > 0:
            elapsed_ms += missing_windows * self._window_ms
        return self._total, max(elapsed_ms, 1)

    def _review(self, now_ms: int) -> None:
        """Drop expired samples, and compute when the next one expires."""
        observed_ms = self._num_samples * self._window_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= observed_ms:
                sample.restart(now_ms)
        self._total = sum(sample.amount for sample in self._samples)
        self._oldest_ms = min(sample.start_ms for sample in self._samples)
        self._review_ms = min(sample.last_ms for sample in self._samples) + observed_ms

    def _next_sample(self, now_ms: int) -> _Sample:
        self._current = (self._current + 1) % (self._num_samples + 1)
        if self._current == len(self._samples):
            sample = _Sample(now_ms)
            self._samples.append(sample)
        else:
            sample = self._samples[self._current]
            self._total -= sample.amount
            sample.restart(now_ms)
        self._review_ms = now_ms
        return sample
