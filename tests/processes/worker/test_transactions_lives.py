"""A worker dies in the middle of a transaction's end, after any number of passes: it ends all the same, one way.

One worker is coordinator of the transaction and of the group, and owner of all partitions; what it has not written is
gone with it. The producer asks again when it is told to, as producers do.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from kafkad.core.errors import ErrorCode
from tests.handlers.kio_calls import KioApi
from tests.processes.group_requests import OFFSETS, committed, with_offsets_topic
from tests.processes.pieces import NETWORK, TOPIC, WORKER, Client, Pieces
from tests.tools.raw_requests import batch, framed, produce, read_produced, text

TRANSACTIONS = "__transaction_state"
INIT, ADD_PARTITIONS, ADD_OFFSETS, END, OFFSET_COMMIT, DESCRIBE = 22, 24, 25, 26, 28, 65
_APIS = {
    INIT: KioApi("init_producer_id", 0),
    ADD_PARTITIONS: KioApi("add_partitions_to_txn", 0),
    ADD_OFFSETS: KioApi("add_offsets_to_txn", 0),
    END: KioApi("end_txn", 0),
    OFFSET_COMMIT: KioApi("txn_offset_commit", 0),
    DESCRIBE: KioApi("describe_transactions", 0),
}
MOVING = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS}
ID = "tx"
TRIES = 2_000
MOST_PASSES = 8


class Producer:
    """A transactional producer by hand, of version 0 of everything."""

    def __init__(self, pieces: Pieces) -> None:
        self.pieces = pieces
        self.client = pieces.connect()
        reply = self._patiently(INIT, transactional_id=ID, transaction_timeout=timedelta(seconds=60))
        self.id, self.epoch = int(reply.producer_id), int(reply.producer_epoch)

    def request(self, key: int, **values: Any) -> bytes:
        names = {
            "transactional_id": ID,
            "producer_id": getattr(self, "id", -1),
            "producer_epoch": getattr(self, "epoch", -1),
        }
        return framed(key, 0, bytes(_APIS[key].request(**{**names, **values})))

    def begin(self, *, with_offsets: bool) -> None:
        """Two partitions have a record of it, and the group an offset."""
        topic = _APIS[ADD_PARTITIONS].part("AddPartitionsToTxnTopic", name=TOPIC, partitions=(0, 1))
        self._patiently(
            ADD_PARTITIONS,
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=(topic,),
        )
        for partition in (0, 1):
            records = batch(producer_id=self.id, producer_epoch=self.epoch, base_sequence=0, is_transactional=True)
            body = produce({(TOPIC, partition): records})
            # The transactional id is the first field of the body, and null in what `produce` packs.
            head = len(framed(0, 7, b"")) - 4
            body = framed(0, 7, text(ID) + body[4 + head + 2 :])
            assert read_produced(self.client.ask(body))[TOPIC, partition].error == 0
        if with_offsets:
            self._patiently(ADD_OFFSETS, group_id="g")
            api = _APIS[OFFSET_COMMIT]
            row = api.part(
                "TxnOffsetCommitRequestPartition", partition_index=0, committed_offset=7, committed_metadata=""
            )
            topics = (api.part("TxnOffsetCommitRequestTopic", name=TOPIC, partitions=(row,)),)
            self._patiently(OFFSET_COMMIT, group_id="g", topics=topics)

    def end(self, *, committed: bool) -> bytes:
        return self.request(END, committed=committed)

    def end_until_done(self, *, committed: bool) -> None:
        self._patiently(END, committed=committed)

    def state(self) -> str:
        api = _APIS[DESCRIBE]
        # A flexible request: its header and that of the reply end with tags.
        body = b"\x00" + bytes(api.request(transactional_ids=(ID,)))
        (row,) = api.read(self.client.ask(framed(DESCRIBE, 0, body))[1:]).transaction_states
        return str(row.transaction_state) or ErrorCode(int(row.error_code)).name

    def _patiently(self, key: int, **values: Any) -> Any:
        for _ in range(TRIES):
            reply = _APIS[key].read(self.client.ask(self.request(key, **values)))
            code = _code_of(reply)
            if code not in MOVING:
                assert code == ErrorCode.NONE, code
                return reply
        raise AssertionError(f"still {code.name} after {TRIES} tries")


def _code_of(reply: Any) -> ErrorCode:
    if hasattr(reply, "error_code"):
        return ErrorCode(int(reply.error_code))
    if hasattr(reply, "results_by_topic_v3_and_below"):
        rows = [
            row.partition_error_code
            for each in reply.results_by_topic_v3_and_below
            for row in each.results_by_partition
        ]
    else:
        rows = [row.error_code for topic in reply.topics for row in topic.partitions]
    (code,) = {int(row) for row in rows}
    return ErrorCode(code)


def begun(pieces: Pieces) -> Producer:
    with_offsets_topic(pieces, 1)
    pieces.create_topic(TRANSACTIONS, 1)
    pieces.run_until_online(TRANSACTIONS)
    pieces.run_until_known()
    producer = Producer(pieces)
    producer.begin(with_offsets=True)
    for partition in (0, 1):
        slot = pieces.published(TOPIC, partition)
        assert (slot.hw_offset, slot.lso_offset) == (1, 0), "the transaction is open"
    return producer


def replace_worker(pieces: Pieces) -> None:
    pieces.replace(WORKER)
    for topic in (TOPIC, OFFSETS, TRANSACTIONS):
        pieces.run_until_online(topic)


def ended(pieces: Pieces, client: Client, *, is_commit: bool) -> None:
    """Each partition has the marker, nothing is open, and the group has its offset or not."""
    for partition in (0, 1):
        slot = pieces.published(TOPIC, partition)
        assert slot.lso_offset == slot.hw_offset >= 2
        log = pieces.worker.partitions.by_slot[pieces.slot(TOPIC, partition)].log
        assert log is not None
        assert [each.current_txn_first_offset for each in log.producers.active()] == [None]
    assert committed(client, "g") == (0, 7 if is_commit else -1)


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("passes", range(MOST_PASSES))
def test_a_decision_survives_whenever_the_worker_dies(pieces: Pieces, passes: int, is_commit: bool) -> None:
    producer = begun(pieces)
    producer.client.send(producer.end(committed=is_commit))
    pieces.turn(NETWORK)
    pieces.turn(NETWORK)
    for _ in range(passes):
        pieces.turn(WORKER)
    replace_worker(pieces)
    code = _code_of(_APIS[END].read(producer.client.reply()))
    if code != ErrorCode.NONE:
        assert code in MOVING
        producer.end_until_done(committed=is_commit)
    state = "CompleteCommit" if is_commit else "CompleteAbort"
    pieces.run(lambda: producer.state() == state, f"the transaction is {state}")
    ended(pieces, producer.client, is_commit=is_commit)


def test_a_decision_that_was_written_and_not_answered_is_carried_out_by_itself(pieces: Pieces) -> None:
    """The worker dies between the write and all that follows from it; nobody asks again."""
    producer = begun(pieces)
    producer.client.send(producer.end(committed=True))
    pieces.turn(NETWORK)
    pieces.turn(NETWORK)
    pieces.worker.loop.run_once(0)
    replace_worker(pieces)
    assert _code_of(_APIS[END].read(producer.client.reply())) == ErrorCode.NOT_COORDINATOR
    pieces.run(lambda: producer.state() == "CompleteCommit", "the transaction is complete")
    ended(pieces, producer.client, is_commit=True)


def test_an_open_transaction_of_a_dead_producer_is_aborted_by_the_next_one(pieces: Pieces) -> None:
    first = begun(pieces)
    replace_worker(pieces)
    second = Producer(pieces)
    assert (second.id, second.epoch > first.epoch) == (first.id, True)
    ended(pieces, second.client, is_commit=False)
    reply = _APIS[END].read(first.client.ask(first.end(committed=True)))
    assert _code_of(reply) in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)


@pytest.mark.parametrize(("verifies", "code"), [("true", ErrorCode.INVALID_TXN_STATE), ("false", ErrorCode.NONE)])
def test_offsets_of_a_group_that_is_not_in_the_transaction(
    make_pieces: Callable[..., Pieces], verifies: str, code: ErrorCode
) -> None:
    """Who sent no AddOffsetsToTxn is found out, unless transactions are not verified."""
    pieces = make_pieces(transaction_partition_verification_enable=verifies)
    with_offsets_topic(pieces, 1)
    pieces.create_topic(TRANSACTIONS, 1)
    pieces.run_until_online(TRANSACTIONS)
    producer = Producer(pieces)
    api = _APIS[OFFSET_COMMIT]
    row = api.part("TxnOffsetCommitRequestPartition", partition_index=0, committed_offset=7, committed_metadata="")
    topics = (api.part("TxnOffsetCommitRequestTopic", name=TOPIC, partitions=(row,)),)
    reply = api.read(producer.client.ask(producer.request(OFFSET_COMMIT, group_id="g", topics=topics)))
    assert _code_of(reply) == code


def test_offsets_of_topics_that_are_not_there_are_told_so_whatever_the_transaction_is(pieces: Pieces) -> None:
    with_offsets_topic(pieces, 1)
    pieces.create_topic(TRANSACTIONS, 1)
    pieces.run_until_online(TRANSACTIONS)
    producer = Producer(pieces)
    api = _APIS[OFFSET_COMMIT]
    row = api.part("TxnOffsetCommitRequestPartition", partition_index=0, committed_offset=7, committed_metadata="")
    for topic, code in (("nothing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (TOPIC, ErrorCode.INVALID_TXN_STATE)):
        topics = (api.part("TxnOffsetCommitRequestTopic", name=topic, partitions=(row,)),)
        frame = producer.request(OFFSET_COMMIT, group_id="g", topics=topics)
        assert _code_of(api.read(producer.client.ask(frame))) is code
