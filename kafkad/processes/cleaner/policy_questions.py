"""What does a policy plan for a log? It is somebody else's code: it may raise, return anything, or not return.

That costs the partition its cleaning by this policy, and is told once: after an exception until the configuration
changes, otherwise for a pause that grows. One broken policy or damaged log must neither stop the cleaning of all others
nor fill the log with the same line.
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
from kafkad.processes.cleaner.slow_policies import MOST_IN_A_ROW, Question, SlowPolicies
from kafkad.processes.cleaner.time_limit import CallTooLong, in_time

log = logging.getLogger(__name__)

_FAILED = "%s-%d is not cleaned by policy %r until its configuration changes: the policy failed"
_NOT_RETURNED = (
    "%s-%d is not cleaned by policy %r of plugin %s, which is asked again in %d s or when its configuration changes: %s"
)
_OF_A_FOLDER = "kafkad_plugin_"
"""Modules of plugins that are files of a folder (`plugin_discovery`) have this before their names."""
_LEFT_ALONE = "policy %r of plugin %s is not asked about any partition for %d s: it has not returned %d times in a row"


class PolicyQuestions:
    """The policies by name, and those that are not asked."""

    def __init__(self, policies: Mapping[str, CleanupPolicy], early_checks: EarlyChecks) -> None:
        self._policies = policies
        self._early_checks = early_checks
        self._quarantined: set[Question] = set()
        self._slow = SlowPolicies()

    def __contains__(self, name: str) -> bool:
        return name in self._policies

    def release(self, is_meant: Callable[[UUID], bool]) -> None:
        """Topics are gone, or their configuration has changed: nothing speaks against asking about them any more."""
        self._quarantined = {each for each in self._quarantined if not is_meant(each.topic_id)}
        self._slow.release(is_meant)

    @property
    def failures(self) -> dict[tuple[UUID, int], str]:
        """By partition, why nothing is planned for it."""
        slow = {(each.topic_id, each.partition): f"policy {each.policy!r} has not returned" for each in self._slow}
        failed = {(each.topic_id, each.partition): f"policy {each.policy!r} failed" for each in self._quarantined}
        return slow | failed

    def ask(self, question: Question, summary: LogSummary, settings: LogConfig, now_ms: int) -> list[CleanupEffect]:
        """The plan; nothing where there is none. `now_ms` is the wall clock."""
        if question in self._quarantined:
            return []
        not_before_ms = self._slow.not_before_ms(question)
        if monotonic_ms() < not_before_ms:
            self._early_checks.retry(question.topic_id, question.partition, not_before_ms)
            return []
        policy = self._policies[question.policy]
        try:
            effects = in_time(lambda: list(policy.plan(summary, settings, now_ms)))
            _check(effects)
        except CallTooLong as reason:
            self._did_not_return(question, summary.topic, reason)
            return []
        except Exception:
            # A plugin's code may raise anything.
            self._quarantined.add(question)
            log.error(_FAILED, summary.topic, summary.partition, question.policy, exc_info=True)
            return []
        self._slow.returned(question)
        return effects

    def _did_not_return(self, question: Question, topic: str, reason: CallTooLong) -> None:
        name, now_ms = question.policy, monotonic_ms()
        plugin = type(self._policies[name]).__module__.removeprefix(_OF_A_FOLDER)
        pause_s = self._slow.did_not_return(question, now_ms) // 1000
        log.error(_NOT_RETURNED, topic, question.partition, name, plugin, pause_s, reason)
        pause_ms = self._slow.leave_alone(name, now_ms)
        if pause_ms is not None:
            log.error(_LEFT_ALONE, name, plugin, pause_ms // 1000, MOST_IN_A_ROW)
        self._early_checks.retry(question.topic_id, question.partition, self._slow.not_before_ms(question))


def _check(effects: list[CleanupEffect]) -> None:
    for effect in effects:
        if not isinstance(effect, DeleteSegments | RollActive | RewriteSegments | TransferSegments):
            expected = "DeleteSegments, RollActive, RewriteSegments or TransferSegments"
            raise TypeError(f"expected {expected}, the policy planned {effect!r}")
