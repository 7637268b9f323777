"""Who is asked again, and when, after a call that did not return?"""

from uuid import UUID

from kafkad.processes.cleaner.slow_policies import MAX_TIMEOUTS, PolicyCall, SlowPolicies

ONE, OTHER = UUID(int=1), UUID(int=2)
MINUTE_MS = 60_000


def may_be_asked(slow: SlowPolicies, call: PolicyCall, now_ms: int) -> bool:
    return now_ms >= slow.not_before_ms(call)


def test_the_partition_waits_and_others_do_not() -> None:
    slow = SlowPolicies()
    assert slow.timed_out(PolicyCall(ONE, 0, "p"), 0) == MINUTE_MS
    assert slow.quarantine("p", 0) is None
    assert not may_be_asked(slow, PolicyCall(ONE, 0, "p"), 1)
    assert may_be_asked(slow, PolicyCall(ONE, 1, "p"), 1)
    assert may_be_asked(slow, PolicyCall(ONE, 0, "delete"), 1)
    assert may_be_asked(slow, PolicyCall(ONE, 0, "p"), MINUTE_MS)
    assert slow.timed_out(PolicyCall(ONE, 0, "p"), MINUTE_MS) == 2 * MINUTE_MS


def test_a_policy_that_never_returns_is_left_alone() -> None:
    slow = SlowPolicies()
    for partition in range(MAX_TIMEOUTS):
        assert slow.quarantine("p", 0) is None
        slow.timed_out(PolicyCall(ONE, partition, "p"), 0)
    assert slow.quarantine("p", 0) == MINUTE_MS
    assert not may_be_asked(slow, PolicyCall(OTHER, 0, "p"), 1)
    assert may_be_asked(slow, PolicyCall(OTHER, 0, "delete"), 1)
    # The first call after the pause decides.
    assert may_be_asked(slow, PolicyCall(OTHER, 0, "p"), MINUTE_MS)
    slow.timed_out(PolicyCall(OTHER, 0, "p"), MINUTE_MS)
    assert slow.quarantine("p", MINUTE_MS) == 2 * MINUTE_MS


def test_a_policy_that_returns_in_between_is_not_left_alone() -> None:
    slow = SlowPolicies()
    for partition in range(5 * MAX_TIMEOUTS):
        slow.timed_out(PolicyCall(ONE, partition, "p"), 0)
        assert slow.quarantine("p", 0) is None
        slow.returned(PolicyCall(OTHER, 0, "p"))


def test_a_changed_configuration_lets_it_be_asked() -> None:
    slow = SlowPolicies()
    slow.timed_out(PolicyCall(ONE, 0, "p"), 0)
    slow.release(lambda topic_id: topic_id == OTHER)
    assert not may_be_asked(slow, PolicyCall(ONE, 0, "p"), 1)
    slow.release(lambda topic_id: topic_id == ONE)
    assert may_be_asked(slow, PolicyCall(ONE, 0, "p"), 1)
