"""A fetch session tells of everything once, however the fetches before it ended."""

from kafkad.core.errors import ErrorCode
from kafkad.core.log.partition_log import PartitionLog
from tests.processes.pieces import NETWORK, TOPIC, WORKER, Client, Pieces
from tests.simulation.requests import Fetched, Partition, fetch, read_fetched
from tests.tools.raw_requests import batch, produce, read_produced


def _log(pieces: Pieces) -> PartitionLog:
    partition_log = pieces.worker.partitions.by_slot[pieces.slot()].log
    assert partition_log is not None
    return partition_log


def _fetched(
    client: Client,
    offsets: dict[Partition, int],
    session: int,
    epoch: int,
    max_wait_ms: int,
    forgotten: tuple[Partition, ...] = (),
) -> tuple[int, dict[Partition, Fetched]]:
    request = fetch(
        offsets,
        1,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session=session,
        epoch=epoch,
        forgotten=forgotten,
    )
    reply = read_fetched(client.ask(request))
    assert reply.error == 0
    return reply.session, reply.partitions


def test_quiet_partition_beside_one_whose_files_are_not_known_is_not_forgotten(pieces: Pieces) -> None:
    """The owner is dead: nobody says where the old segment of the one is, and the fetch expires."""
    writer, reader = pieces.connect(), pieces.connect()
    for end in (1, 2):
        assert read_produced(writer.ask(produce({(TOPIC, 0): batch()})))[TOPIC, 0].error == 0
        _log(pieces).roll(end, 0)
    pieces.settle()
    pieces.kill(WORKER)
    pieces.tell_roster()
    pieces.turn(NETWORK)
    session, _ = _fetched(reader, {(TOPIC, 0): 0, (TOPIC, 1): 0}, 0, 0, 5)
    pieces.begin(WORKER)
    pieces.run_until_online()
    assert read_produced(writer.ask(produce({(TOPIC, 1): batch()})))[TOPIC, 1].error == 0
    pieces.settle()
    _, found = _fetched(reader, {}, session, 1, 0)
    assert found[TOPIC, 1].records


def test_session_ends_with_its_last_partition_and_its_id_is_not_sent_again(pieces: Pieces) -> None:
    reader = pieces.connect()
    session, _ = _fetched(reader, {(TOPIC, 0): 0}, 0, 0, 0)
    assert session
    ended, found = _fetched(reader, {}, session, 1, 60_000, forgotten=((TOPIC, 0),))
    assert (ended, found) == (0, {})
    handler = pieces.network.request_handlers.fetch
    assert (len(handler._cache), handler.watches.interested) == (0, {})


def test_session_that_was_closed_while_its_fetch_waited_is_not_named_in_the_answer(pieces: Pieces) -> None:
    waiting, other, writer = pieces.connect(), pieces.connect(), pieces.connect()
    session, _ = _fetched(waiting, {(TOPIC, 0): 0}, 0, 0, 0)
    waiting.send(fetch({}, 1, max_wait_ms=300, min_bytes=1, max_bytes=1 << 20, session=session, epoch=1))
    pieces.settle()
    _fetched(other, {(TOPIC, 1): 0}, session, -1, 0)
    assert read_fetched(waiting.reply()).session == 0
    assert pieces.network.request_handlers.fetch.watches.interested == {}
    assert read_produced(writer.ask(produce({(TOPIC, 0): batch()})))[TOPIC, 0].error == 0


def test_waiting_fetch_is_refused_when_another_request_continues_its_session(pieces: Pieces) -> None:
    """As in Apache Kafka: two responses of one session with the same records would both be taken for the next one."""
    waiting, other, writer = pieces.connect(), pieces.connect(), pieces.connect()
    session, _ = _fetched(waiting, {(TOPIC, 0): 0}, 0, 0, 0)
    waiting.send(fetch({}, 1, max_wait_ms=60_000, min_bytes=1, max_bytes=1 << 20, session=session, epoch=1))
    pieces.settle()
    _, found = _fetched(other, {}, session, 2, 0)
    assert found == {}
    assert read_produced(writer.ask(produce({(TOPIC, 0): batch()})))[TOPIC, 0].error == 0
    refused = read_fetched(waiting.reply())
    assert (refused.error, refused.session, refused.partitions) == (
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        session,
        {},
    )
    _, found = _fetched(other, {}, session, 3, 0)
    assert found[TOPIC, 0].records
