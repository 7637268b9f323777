"""What goes wrong again and again is said once a minute."""

from kafkad.core.connections.log_rate_limit import LogRateLimit
from kafkad.core.connections.peer_log_rate_limit import QUIET_MS


def test_the_same_is_said_again_after_a_minute_only() -> None:
    log_rate_limit = LogRateLimit()
    assert [log_rate_limit.is_due("away", now) for now in (5, 6, QUIET_MS + 4, QUIET_MS + 5)] == [
        True,
        False,
        False,
        True,
    ]


def test_another_cause_is_said_at_once() -> None:
    log_rate_limit = LogRateLimit()
    assert log_rate_limit.is_due("away", 5)
    assert log_rate_limit.is_due("silent", 6)
