"""What is asked of owners on behalf of a client: with the deadline that the client has set."""

import pytest

from kafkad.wire.processes.descriptors import DeleteRecordsRequest, unpack_control
from tests.processes.pieces import NETWORK, TOPIC, Pieces
from tests.processes.sent_frames import SentFrames
from tests.tools.raw_requests import delete_records


@pytest.mark.parametrize("timeout_ms", [0, 250, 3_600_000])
def test_owners_are_told_how_long_the_client_waits(pieces: Pieces, timeout_ms: int) -> None:
    sent = SentFrames()
    pieces.network.request_handlers.owners._sender = sent
    client = pieces.connect()
    before_ms = pieces.network.clients.now_ms
    client.send(delete_records(TOPIC, 0, 0, timeout_ms=timeout_ms))
    pieces.run(lambda: sent.frames, "the owner is asked")
    message = unpack_control(sent.frames[0][1])
    assert isinstance(message, DeleteRecordsRequest)
    assert before_ms <= message.deadline_ms - timeout_ms <= pieces.network.clients.now_ms
    pieces.turn(NETWORK)
