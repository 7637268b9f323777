"""connections.max.idle.ms: whoever asks nothing for so long is let go."""

from collections.abc import Callable

from tests.processes.pieces import Pieces


def test_idle_connection_is_closed(make_pieces: Callable[..., Pieces]) -> None:
    pieces = make_pieces(connections_max_idle_ms="300")
    idle = pieces.connect()
    pieces.run(lambda: idle.is_closed, "the connection is closed")
    assert not idle.replies
