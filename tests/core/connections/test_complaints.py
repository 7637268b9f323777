"""What goes wrong again and again is said once a minute."""

from kafkad.core.connections.complaints import Complaints
from kafkad.core.connections.peer_complaints import QUIET_MS


def test_the_same_is_said_again_after_a_minute_only() -> None:
    complaints = Complaints()
    assert [complaints.is_due("away", now) for now in (5, 6, QUIET_MS + 4, QUIET_MS + 5)] == [True, False, False, True]


def test_another_cause_is_said_at_once() -> None:
    complaints = Complaints()
    assert complaints.is_due("away", 5)
    assert complaints.is_due("silent", 6)
