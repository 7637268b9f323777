"""Calls cleanup policies. A policy is code of a plugin: it may raise, return anything, or not return.

A failure suspends the policy for the partition and is logged once: after an exception until the configuration changes,
after a timeout for an increasing pause. One broken policy or corrupt log must neither stop the cleaning of others nor
fill the broker's log.
"""

import logging
from collections.abc import Callable, Mapping
from uuid import UUID

from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.core.cleanup import (
    CleanupEffect,
    CleanupPolicy,
    DeleteSegments,
    LogSummary,
    RewriteSegments,
    RollActive,
    TransferSegments,
)
from kafkad.core.log.settings import LogConfig
from kafkad.processes.cleaner.early_checks import EarlyChecks
from kafkad.processes.cleaner.slow_policies import MAX_TIMEOUTS, PolicyCall, SlowPolicies
from kafkad.processes.cleaner.time_limit import CallTooLong, in_time

log = logging.getLogger(__name__)

_FAILED = "%s-%d is not cleaned by policy %r until its configuration changes: the policy failed"
_TIMED_OUT = "%s-%d is not cleaned by policy %r of plugin %s, retrying in %d s or when its configuration changes: %s"
_FOLDER_PREFIX = "kafkad_plugin_"
"""The prefix of modules of plugins that are files of a folder (`plugin_discovery`)."""
_POLICY_QUARANTINED = "policy %r of plugin %s is suspended for all partitions for %d s: it timed out %d times in a row"


class PolicyCalls:
    """The policies by name, and the suspended calls."""

    def __init__(self, policies: Mapping[str, CleanupPolicy], early_checks: EarlyChecks) -> None:
        self._policies = policies
        self._early_checks = early_checks
        self._failed: set[PolicyCall] = set()
        self._slow = SlowPolicies()

    def __contains__(self, name: str) -> bool:
        return name in self._policies

    def release(self, is_selected: Callable[[UUID], bool]) -> None:
        """Topics were deleted, or their configuration has changed: resume their calls."""
        self._failed = {each for each in self._failed if not is_selected(each.topic_id)}
        self._slow.release(is_selected)

    @property
    def failures(self) -> dict[tuple[UUID, int], str]:
        """The reasons why nothing is planned, by partition."""
        slow = {(each.topic_id, each.partition): f"policy {each.policy!r} timed out" for each in self._slow}
        failed = {(each.topic_id, each.partition): f"policy {each.policy!r} failed" for each in self._failed}
        return slow | failed

    def plan(self, call: PolicyCall, summary: LogSummary, settings: LogConfig, now_ms: int) -> list[CleanupEffect]:
        """The effects of the policy; none if the call is suspended or fails. `now_ms` is the wall clock."""
        if call in self._failed:
            return []
        not_before_ms = self._slow.not_before_ms(call)
        if monotonic_ms() < not_before_ms:
            self._early_checks.retry(call.topic_id, call.partition, not_before_ms)
            return []
        policy = self._policies[call.policy]
        try:
            effects = in_time(lambda: list(policy.plan(summary, settings, now_ms)))
            _check(effects)
        except CallTooLong as reason:
            self._handle_timeout(call, summary.topic, reason)
            return []
        except Exception:
            # A plugin's code may raise anything.
            self._failed.add(call)
            log.error(_FAILED, summary.topic, summary.partition, call.policy, exc_info=True)
            return []
        self._slow.returned(call)
        return effects

    def _handle_timeout(self, call: PolicyCall, topic: str, reason: CallTooLong) -> None:
        name, now_ms = call.policy, monotonic_ms()
        plugin = type(self._policies[name]).__module__.removeprefix(_FOLDER_PREFIX)
        pause_s = self._slow.timed_out(call, now_ms) // 1000
        log.error(_TIMED_OUT, topic, call.partition, name, plugin, pause_s, reason)
        pause_ms = self._slow.quarantine(name, now_ms)
        if pause_ms is not None:
            log.error(_POLICY_QUARANTINED, name, plugin, pause_ms // 1000, MAX_TIMEOUTS)
        self._early_checks.retry(call.topic_id, call.partition, self._slow.not_before_ms(call))


def _check(effects: list[CleanupEffect]) -> None:
    for effect in effects:
        if not isinstance(effect, DeleteSegments | RollActive | RewriteSegments | TransferSegments):
            expected = "DeleteSegments, RollActive, RewriteSegments or TransferSegments"
            raise TypeError(f"expected {expected}, the policy planned {effect!r}")
