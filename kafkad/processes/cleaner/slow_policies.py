"""Suspends policies after calls that timed out, for a partition or for all."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple
from uuid import UUID

from kafkad.core.cleaning.quarantine import Quarantine

MAX_TIMEOUTS = 3
"""After so many consecutive timeouts the policy is suspended for all partitions."""


class PolicyCall(NamedTuple):
    """A call of a policy for a partition."""

    topic_id: UUID
    partition: int
    policy: str


class SlowPolicies:
    """`now_ms` is the monotonic clock."""

    def __init__(self) -> None:
        self._calls: Quarantine[PolicyCall] = Quarantine()
        self._policies: Quarantine[str] = Quarantine()
        self._timeouts: Counter[str] = Counter()

    def __iter__(self) -> Iterator[PolicyCall]:
        return iter(self._calls)

    def not_before_ms(self, call: PolicyCall) -> int:
        """When the call is allowed; in the past unless it is suspended."""
        return max(self._policies.until_ms(call.policy) or 0, self._calls.until_ms(call) or 0)

    def returned(self, call: PolicyCall) -> None:
        if self._timeouts.pop(call.policy, 0):
            self._policies.release(lambda policy: policy == call.policy)
        if len(self._calls):
            self._calls.release(lambda other: other == call)

    def timed_out(self, call: PolicyCall, now_ms: int) -> int:
        """Returns the milliseconds until the call is allowed again."""
        self._timeouts[call.policy] += 1
        return self._calls.failed(call, now_ms)

    def quarantine(self, policy: str, now_ms: int) -> int | None:
        """Suspend the policy after consecutive timeouts. Returns the milliseconds until calls are allowed, if any."""
        if self._timeouts[policy] < MAX_TIMEOUTS:
            return None
        return self._policies.failed(policy, now_ms)

    def release(self, is_selected: Callable[[UUID], bool]) -> None:
        """The configuration of these topics has changed."""
        self._calls.release(lambda call: is_selected(call.topic_id))
        self._policies.release(lambda _: True)
