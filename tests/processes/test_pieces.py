"""The controller that is played for a broker in pieces sends what the real one sends."""

from kafkad.wire.processes.controller_messages import Applied, SnapshotWanted
from tests.processes.pieces import Pieces


def test_a_change_behind_the_first_snapshot_makes_nobody_ask_for_another(pieces: Pieces) -> None:
    """It would come at some time during the test, and everybody who waits would look again."""
    newest = Applied(pieces.image.version)
    pieces.run(lambda: pieces.heard.count(newest) >= 2, "both processes say that they have the newest version")
    asked = [message for message in pieces.heard if isinstance(message, SnapshotWanted)]
    assert asked == [SnapshotWanted(0), SnapshotWanted(0)], "each for its first link, and no more"
