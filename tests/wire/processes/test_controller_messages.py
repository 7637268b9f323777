"""Messages between the controller and the other processes come out as they went in."""

import pytest

from kafkad.wire.processes.controller_messages import (
    MESSAGE,
    ControllerMessage,
    IsrChangeDone,
    IsrChangeRequest,
    pack_message,
    unpack_message,
)


@pytest.mark.parametrize(
    "message",
    [
        IsrChangeRequest(5, bytes(range(16)), 3, 7, 2, [1, 3], [-1, 40]),
        IsrChangeDone(5, bytes(range(16)), 3, 0, 1, 7, [1, 3], 3),
        IsrChangeDone(5, bytes(16), 0, 95, -1, -1, [], 0),
    ],
)
def test_a_message_comes_out_as_it_went_in(message: ControllerMessage) -> None:
    frame = pack_message(message)
    assert (frame[0], unpack_message(frame)) == (MESSAGE, message)
