"""A broker in pieces: its played controller sends what the real one sends, and its end gives everything back."""

import gc
import os
from pathlib import Path

from kafkad.wire.processes.controller_messages import Applied, SnapshotRequest
from tests.processes.pieces import NETWORK, TOPIC, WORKER, Pieces
from tests.tools.raw_requests import batch, fetch, produce, read_produced


def test_a_change_behind_the_first_snapshot_makes_nobody_ask_for_another(pieces: Pieces) -> None:
    """It would come at some time during the test, and everybody who waits would look again."""
    newest = Applied(pieces.image.version)
    pieces.run(lambda: pieces.heard.count(newest) >= 2, "both processes say that they have the newest version")
    asked = [message for message in pieces.heard if isinstance(message, SnapshotRequest)]
    assert asked == [SnapshotRequest(0), SnapshotRequest(0)], "each for its first link, and no more"


def test_the_end_gives_every_descriptor_back_those_of_dead_processes_as_well(tmp_path: Path) -> None:
    """Hundreds of tests have pieces of their own, in one process."""
    gc.collect()
    before = _descriptors()
    pieces = Pieces(tmp_path)
    pieces.start()
    _write_and_read(pieces)
    for key in (NETWORK, WORKER):
        pieces.kill(key)
    pieces.tell_roster()
    for key in (WORKER, NETWORK):
        pieces.begin(key)
    pieces.run_until_online()
    pieces.run_until_known()
    _write_and_read(pieces)
    pieces.close()
    del pieces
    gc.collect()
    assert _descriptors() - before == set()


def _write_and_read(pieces: Pieces) -> None:
    client = pieces.connect()
    assert read_produced(client.ask(produce({(TOPIC, 0): batch()})))[TOPIC, 0].error == 0
    client.ask(fetch({(TOPIC, 0): 0}))


def _descriptors() -> set[str]:
    """What is open, each with what it is of: a number may be used again."""
    listed = Path("/proc/self/fd")
    return {f"{fd} {os.readlink(listed / fd)}" for fd in os.listdir(listed) if (listed / fd).is_symlink()}
