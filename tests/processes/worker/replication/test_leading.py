"""A leader with followers on other brokers: they are raw Fetch requests, and the image says who leads."""

import logging
from collections.abc import Callable
from pathlib import Path
from struct import Struct

import pytest
from msgspec.structs import replace

from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.controller.deltas import (
    BrokersChanged,
    MetadataDelta,
    PartitionsChanged,
    ReplicasRemoved,
    TopicConfigChanged,
)
from kafkad.core.controller.image import NO_OWNER, NO_SLOT, Broker, Partition
from kafkad.core.errors import ErrorCode
from kafkad.core.log.partition_log import CACHED_POSITIONS
from kafkad.core.metrics.catalogue import (
    BYTES_OUT,
    FAILED_ISR_UPDATES,
    ISR_EXPANDS,
    ISR_SHRINKS,
    REPLICATION_BYTES_OUT,
)
from kafkad.core.partition_slot import ROLE_FOLLOWER, ROLE_LEADER, STATE_OFFLINE
from kafkad.wire.processes.controller_messages import IsrChangeDone, IsrChangeRequest, LogDirFailed, pack_message
from tests.processes.pieces import NETWORK, TOPIC, WORKER, Client, Pieces
from tests.tools.raw_requests import (
    FETCH,
    Fetched,
    batch,
    delete_records,
    fetch,
    framed,
    produce,
    read_fetched,
    read_produced,
    text,
)

US, SECOND, THIRD = 1, 2, 3
ALL = (US, SECOND, THIRD)
BEFORE_BODY = 4 + 2 + 2 + 4 + 2 + len(b"raw")
"""The size, the header and the client id of a raw request."""


@pytest.fixture
def pieces(make_pieces: Callable[..., Pieces]) -> Pieces:
    """The first partition of the topic has three replicas, all in sync; its followers have not fetched."""
    pieces = make_pieces(node_id=str(US), replica_lag_time_max_ms="60000")
    brokers = tuple(Broker(id=broker, epoch=broker, listeners=(), rack=None) for broker in ALL)
    pieces.publish(BrokersChanged(brokers))
    change(pieces, leader_epoch=1, partition_epoch=1, replicas=ALL, isr=ALL)
    return pieces


def change(pieces: Pieces, **fields: object) -> Partition:
    rows = pieces.image.topics[TOPIC].partitions
    row = replace(rows[0], **fields)
    pieces.publish(PartitionsChanged(TOPIC, (row,)))
    pieces.run_until_known()
    pieces.settle()
    return row


def fetch_as(client: Client, replica: int, offset: int, *, max_wait_ms: int = 0) -> None:
    """Fetch 4 of a follower, which is known by its id."""
    request = bytearray(fetch({(TOPIC, 0): offset}, max_wait_ms=max_wait_ms))
    Struct(">i").pack_into(request, BEFORE_BODY, replica)
    client.send(bytes(request))


def fetch_from_log_start(replica: int, offset: int, *, log_start: int) -> bytes:
    """Fetch 5, which says where the follower's log starts."""
    head = Struct(">iiiibi").pack(replica, 0, 1, 1 << 20, 0, 1)
    return framed(FETCH, 5, head + text(TOPIC) + Struct(">iiqqi").pack(1, 0, offset, log_start, 1 << 20))


def fetched(client: Client, replica: int, offset: int) -> Fetched:
    fetch_as(client, replica, offset)
    return read_fetched(client.reply())[TOPIC, 0]


def committed(pieces: Pieces) -> tuple[int, int]:
    pieces.settle()
    published = pieces.published()
    return published.hw_offset, published.leo_offset


def append(client: Client, *, acks: int = 1) -> tuple[int, int]:
    return tuple(read_produced(client.ask(produce({(TOPIC, 0): batch()}, acks=acks)))[TOPIC, 0])  # type: ignore[return-value]


def wishes(pieces: Pieces, count: int = 1) -> list[IsrChangeRequest]:
    """What the controller has heard, when it is so much."""

    def heard() -> list[IsrChangeRequest]:
        return [message for message in pieces.heard if isinstance(message, IsrChangeRequest)]

    pieces.run(lambda: len(heard()) >= count, f"{count} changes of the ISR are asked for")
    pieces.settle()
    return heard()


def grant(pieces: Pieces, wanted: IsrChangeRequest) -> None:
    epoch = wanted.partition_epoch + 1
    done = IsrChangeDone(
        *(wanted.slot, wanted.topic_id, wanted.partition, 0, US, wanted.leader_epoch, wanted.isr, epoch)
    )
    pieces.send_frame(WORKER, pack_message(done))
    led = pieces.worker.partitions.by_slot[wanted.slot].led
    assert led is not None
    pieces.run(lambda: led.state.partition_epoch == epoch, "the worker has the answer")


def counted(pieces: Pieces, process: ProcessKey) -> CounterBlock:
    return pieces.shared.counters.block(pieces.registry.slot(process))


def test_the_high_watermark_follows_the_slowest_in_sync_replica(pieces: Pieces) -> None:
    client = pieces.connect()
    append(client)
    append(client)
    assert committed(pieces) == (0, 2)
    assert len(fetched(client, SECOND, 0).records) > 0, "followers read up to the log end"
    assert fetched(client, -1, 0).records == b""
    fetched(client, SECOND, 2)
    assert committed(pieces) == (0, 2)
    fetched(client, THIRD, 1)
    assert committed(pieces) == (1, 2)
    fetched(client, THIRD, 2)
    assert committed(pieces) == (2, 2)


def test_a_log_whose_committed_end_can_not_be_read_takes_its_log_directory_offline(
    pieces: Pieces, fail_reads: Callable[[Path], None]
) -> None:
    """The place of a high watermark that is far behind is looked up in the files, when the slot is published."""
    client = pieces.connect()
    for _ in range(CACHED_POSITIONS + 2):
        append(client)
    incarnation = pieces.registry.incarnation(WORKER)
    fetched(client, SECOND, 1)
    fail_reads(pieces.directory())
    fetch_as(client, THIRD, CACHED_POSITIONS + 2)
    pieces.run(lambda: pieces.published().state == STATE_OFFLINE, "the partition is offline")
    pieces.run(lambda: any(isinstance(each, LogDirFailed) for each in pieces.heard), "the controller is notified")
    assert pieces.registry.incarnation(WORKER) == incarnation


def test_acks_all_waits_for_the_in_sync_replicas_and_wakes_a_follower_that_waits(pieces: Pieces) -> None:
    follower, other, producer = pieces.connect(), pieces.connect(), pieces.connect()
    fetch_as(follower, SECOND, 0, max_wait_ms=60_000)
    fetch_as(other, THIRD, 0, max_wait_ms=60_000)
    pieces.settle()
    producer.send(produce({(TOPIC, 0): batch()}, acks=-1))
    for client in (follower, other):
        assert len(read_fetched(client.reply())[TOPIC, 0].records) > 0
    pieces.settle()
    assert producer.replies == []
    fetch_as(follower, SECOND, 1, max_wait_ms=60_000)
    fetch_as(other, THIRD, 1, max_wait_ms=60_000)
    assert read_produced(producer.reply())[TOPIC, 0] == (0, 0)


def test_a_batch_that_is_not_replicated_in_time_has_its_offset_in_the_answer(pieces: Pieces) -> None:
    client = pieces.connect()
    assert append(client) == (0, 0)
    answer = client.ask(produce({(TOPIC, 0): batch()}, acks=-1, timeout_ms=1))
    assert read_produced(answer)[TOPIC, 0] == (ErrorCode.REQUEST_TIMED_OUT, 1)


def test_acks_all_is_answered_when_consumers_can_read_the_records(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a delayed produce waits for is published first: the answer may be there before the pass ends."""
    appender, readable = pieces.worker.appender, []
    sender = appender._sender

    class Look:
        def send(self, peer: ProcessKey, frame: bytes, *, wakes: bool = True) -> bool:
            readable.append(pieces.published().hw_offset)
            return sender.send(peer, frame, wakes=wakes)

    monkeypatch.setattr(appender, "_sender", Look())
    client, producer = pieces.connect(), pieces.connect()
    producer.send(produce({(TOPIC, 0): batch()}, acks=-1))
    pieces.settle()
    for replica in (SECOND, THIRD):
        fetched(client, replica, 1)
    assert read_produced(producer.reply())[TOPIC, 0] == (0, 0)
    assert readable == [1]


def test_fetches_of_strangers_and_for_the_leader_itself_are_refused(pieces: Pieces) -> None:
    client = pieces.connect()
    append(client)
    for replica in (US, 9):
        assert fetched(client, replica, 1).error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert committed(pieces) == (0, 1)


def test_a_follower_that_has_everything_is_asked_into_the_isr_once(pieces: Pieces) -> None:
    change(pieces, leader_epoch=2, partition_epoch=2, isr=(US, SECOND))
    client = pieces.connect()
    append(client)
    fetched(client, SECOND, 1)
    assert committed(pieces) == (1, 1)
    fetched(client, THIRD, 1)
    (wanted,) = wishes(pieces)
    assert (wanted.leader_epoch, wanted.partition_epoch, wanted.isr) == (2, 2, [US, SECOND, THIRD])
    append(client)
    fetched(client, SECOND, 2)
    assert committed(pieces) == (1, 2), "who is about to join counts already"
    grant(pieces, wanted)
    fetched(client, THIRD, 2)
    assert committed(pieces) == (2, 2)
    assert len(wishes(pieces)) == 1


def test_changes_of_the_isr_and_bytes_for_followers_are_counted(
    pieces: Pieces, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    change(pieces, leader_epoch=2, partition_epoch=2, isr=(US, SECOND))
    client = pieces.connect()
    append(client)
    records = fetched(client, SECOND, 0).records
    fetched(client, SECOND, 1)
    assert committed(pieces) == (1, 1)
    assert fetched(client, -1, 0).records == records
    fetched(client, THIRD, 1)
    (wanted,) = wishes(pieces)
    grant(pieces, wanted)
    fetched(client, THIRD, 1)
    worker = counted(pieces, WORKER)
    assert (worker[ISR_EXPANDS], worker[ISR_SHRINKS], worker[FAILED_ISR_UPDATES]) == (1, 0, 0)
    network = counted(pieces, NETWORK)
    assert network[REPLICATION_BYTES_OUT] == len(records)
    assert network[BYTES_OUT] == pieces.table.bytes_out(pieces.slot()) == len(records), "a topic's traffic is clients'"
    assert pieces.published().min_in_sync == 1
    assert caplog.messages == [f"ISR expanded for {TOPIC}-0 from [1,2] to [1,2,3]: replica 3 is caught up"]


def test_a_wish_is_told_again_to_the_next_life_of_the_controller_process(pieces: Pieces) -> None:
    change(pieces, leader_epoch=2, partition_epoch=2, isr=(US, SECOND))
    fetched(pieces.connect(), THIRD, 0)
    assert len(wishes(pieces)) == 1
    pieces.worker.leading.repeat_requests()
    first, second = wishes(pieces, 2)
    assert first == second


def test_who_is_behind_for_too_long_leaves_the_isr(make_pieces: Callable[..., Pieces]) -> None:
    pieces = make_pieces(node_id=str(US), replica_lag_time_max_ms="1", replica_fetch_wait_max_ms="1")
    change(pieces, leader_epoch=1, partition_epoch=1, replicas=ALL, isr=ALL)
    producer = pieces.connect()
    producer.send(produce({(TOPIC, 0): batch()}, acks=-1))
    (wanted,) = wishes(pieces)
    assert wanted.isr == [US]
    assert producer.replies == [], "it counts until the controller has agreed"
    grant(pieces, wanted)
    assert read_produced(producer.reply())[TOPIC, 0] == (0, 0)


def test_too_few_in_sync_replicas_refuse_acks_all(make_pieces: Callable[..., Pieces]) -> None:
    pieces = make_pieces(node_id=str(US), min_insync_replicas="2")
    change(pieces, leader_epoch=1, partition_epoch=1, replicas=ALL, isr=(US,))
    client = pieces.connect()
    assert append(client, acks=-1)[0] == ErrorCode.NOT_ENOUGH_REPLICAS
    assert append(client, acks=1) == (0, 0)
    assert committed(pieces) == (0, 1)
    assert pieces.published().min_in_sync == 2
    pieces.publish(TopicConfigChanged(TOPIC, {"min.insync.replicas": "1"}))
    pieces.run(lambda: committed(pieces) == (1, 1), "what one replica has is committed now")
    assert pieces.published().min_in_sync == 1


def test_a_member_that_the_isr_is_about_to_get_counts_for_what_is_appended_already(
    make_pieces: Callable[..., Pieces],
) -> None:
    pieces = make_pieces(node_id=str(US), min_insync_replicas="2", replica_lag_time_max_ms="60000")
    pieces.publish(BrokersChanged(tuple(Broker(id=broker, epoch=broker, listeners=(), rack=None) for broker in ALL)))
    change(pieces, leader_epoch=1, partition_epoch=1, replicas=ALL, isr=(US, SECOND))
    client = pieces.connect()
    append(client)
    fetched(client, SECOND, 1)
    assert committed(pieces)[0] == 1
    pieces.publish(BrokersChanged(tuple(Broker(id=each, epoch=each, listeners=(), rack=None) for each in (US, THIRD))))
    change(pieces, leader_epoch=1, partition_epoch=2, replicas=ALL, isr=(US,))
    appender, slot = pieces.worker.appender, pieces.slot()
    assert appender.replication_of(slot, 1) == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    fetched(client, THIRD, 1)
    wishes(pieces)
    assert appender.replication_of(slot, 1) == ErrorCode.NONE


def test_a_new_leader_says_where_its_epoch_began(pieces: Pieces) -> None:
    client = pieces.connect()
    append(client)
    append(client)
    change(pieces, leader_epoch=2, partition_epoch=2, replicas=ALL, isr=ALL)
    published = pieces.published()
    assert (published.hw_offset, published.epoch_start) == (0, 2)
    for replica in (SECOND, THIRD):
        fetched(client, replica, 2)
    assert committed(pieces) == (2, 2)
    change(pieces, leader_epoch=3, partition_epoch=3, leader=SECOND, replicas=ALL, isr=ALL)
    assert pieces.published().epoch_start == 0


def test_who_waits_for_replicas_of_a_deleted_topic_hears_that_it_is_gone(pieces: Pieces) -> None:
    """As in Apache Kafka, which looks into its metadata then; without a look the leader would be elsewhere."""
    waiting, late = pieces.connect(), pieces.connect()
    waiting.send(produce({(TOPIC, 0): batch()}, acks=-1))
    pieces.settle()
    assert waiting.replies == []
    pieces.delete_topic(TOPIC, to=(WORKER,))
    assert read_produced(waiting.reply())[TOPIC, 0].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for acks in (1, -1):
        late.send(produce({(TOPIC, 0): batch()}, acks=acks))
        assert read_produced(late.reply())[TOPIC, 0].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_who_waits_for_a_replica_that_leaves_hears_that_the_leader_is_elsewhere(pieces: Pieces) -> None:
    waiting, late = pieces.connect(), pieces.connect()
    waiting.send(produce({(TOPIC, 0): batch()}, acks=-1))
    pieces.settle()
    topic, slot = pieces.image.topics[TOPIC], pieces.slot()
    gone = replace(topic.partitions[0], slot=NO_SLOT, owner=NO_OWNER, leader=SECOND, replicas=(SECOND, THIRD))
    pieces.publish(ReplicasRemoved(TOPIC, topic.id, (gone,), (slot,)), to=(WORKER,))
    assert read_produced(waiting.reply())[TOPIC, 0].error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert append(late)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_leader_that_is_deposed_answers_who_waits_and_refuses_the_rest(pieces: Pieces) -> None:
    producer, consumer, client = pieces.connect(), pieces.connect(), pieces.connect()
    producer.send(produce({(TOPIC, 0): batch()}, acks=-1))
    pieces.settle()
    fetch_as(consumer, SECOND, 1, max_wait_ms=60_000)
    pieces.settle()
    change(pieces, leader=SECOND, leader_epoch=2, partition_epoch=2)
    assert read_produced(producer.reply())[TOPIC, 0].error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert read_fetched(consumer.reply())[TOPIC, 0].error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert append(client)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert pieces.published().role == ROLE_FOLLOWER
    change(pieces, leader=US, leader_epoch=3, partition_epoch=3)
    assert pieces.published().role == ROLE_LEADER
    assert append(client) == (0, 1)
    assert committed(pieces) == (0, 2)


def test_a_leader_that_is_deposed_and_leads_again_acknowledges_no_record_of_before(pieces: Pieces) -> None:
    """All in one pass of the worker: the record may have been truncated in between."""
    row = change(pieces, isr=(US,), partition_epoch=2)
    producer = pieces.connect()
    producer.send(produce({(TOPIC, 0): batch()}, acks=-1))
    append, sent = pieces.worker.appender.append, []

    def append_then_change(network: int, frame: bytes) -> bool:
        sent.append(frame)
        is_long = append(network, frame)
        for epoch, leader in ((2, SECOND), (3, US)):
            changed = replace(row, leader=leader, leader_epoch=epoch, partition_epoch=epoch + 1)
            pieces.worker.metadata_changed(pieces.image, MetadataDelta(0, (PartitionsChanged(TOPIC, (changed,)),)))
        return is_long

    pieces.worker.appender.append = append_then_change  # type: ignore[method-assign]
    assert read_produced(producer.reply())[TOPIC, 0].error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(sent) == 1


def test_progress_of_an_older_epoch_says_nothing(pieces: Pieces) -> None:
    """The follower's log may have been truncated since."""
    client = pieces.connect()
    append(client)
    fetch_as(client, SECOND, 1)
    fetch_as(client, THIRD, 1)
    pieces.turn(NETWORK)
    pieces.turn(NETWORK)
    rows = pieces.image.topics[TOPIC].partitions
    pieces.publish(PartitionsChanged(TOPIC, (replace(rows[0], leader_epoch=2, partition_epoch=2),)), to=(WORKER,))
    led = pieces.worker.partitions.by_slot[pieces.slot()]
    handle, pieces.worker.leading.handle = pieces.worker.leading.handle, lambda frame: late.append(frame)  # type: ignore[method-assign]
    late: list[bytes] = []
    pieces.run(lambda: late and led.leader_epoch == 2, "the worker knows of the next epoch")
    for frame in late:
        handle(frame)
    assert committed(pieces) == (0, 1)


def test_a_worker_that_is_replaced_keeps_the_high_watermark_and_hears_of_followers_again(pieces: Pieces) -> None:
    client = pieces.connect()
    append(client)
    append(client)
    fetched(client, SECOND, 2)
    fetched(client, THIRD, 1)
    assert committed(pieces) == (1, 2)
    pieces.replace(WORKER)
    pieces.run_until_online()
    assert committed(pieces) == (1, 2)
    fetched(client, SECOND, 2)
    fetched(client, THIRD, 2)
    assert committed(pieces) == (2, 2)


def test_what_followers_have_is_known_though_it_was_said_before_the_log_was_loaded(pieces: Pieces) -> None:
    """Who waits at the end of a log says it once to a worker that replaces another."""
    client, follower, other = pieces.connect(), pieces.connect(), pieces.connect()
    append(client)
    fetch_as(follower, SECOND, 1, max_wait_ms=60_000)
    fetch_as(other, THIRD, 1, max_wait_ms=60_000)
    pieces.turn(NETWORK)
    pieces.replace(WORKER)
    for _ in range(20):
        pieces.turn(NETWORK)
    pieces.run_until_online()
    assert committed(pieces) == (1, 1)


def test_deleted_records_are_deleted_when_all_replicas_have_deleted_them(pieces: Pieces) -> None:
    client, other = pieces.connect(), pieces.connect()
    append(client)
    for replica in (SECOND, THIRD):
        fetched(client, replica, 1)
    assert committed(pieces) == (1, 1)
    other.send(delete_records(TOPIC, 0, 1))
    pieces.settle()
    assert pieces.published().log_start == 1
    assert other.replies == []
    for replica in (SECOND, THIRD):
        client.send(fetch_from_log_start(replica, 1, log_start=1))
        client.reply()
    low_watermark, error = Struct(">qh").unpack(other.reply()[-10:])
    assert (low_watermark, error) == (1, 0)


def test_an_append_after_which_a_follower_may_lag_is_what_the_worker_wakes_up_for(
    make_pieces: Callable[..., Pieces],
) -> None:
    pieces = make_pieces(node_id=str(US), replica_lag_time_max_ms="50", replica_fetch_wait_max_ms="50")
    pieces.publish(BrokersChanged(tuple(Broker(id=each, epoch=each, listeners=(), rack=None) for each in (US, SECOND))))
    change(pieces, leader_epoch=1, partition_epoch=1, replicas=(US, SECOND), isr=(US, SECOND))
    fetched(pieces.connect(), SECOND, 0)
    writer = pieces.connect()
    pieces.run(lambda: pieces.worker.leading.next_deadline_ms is None, "the follower has caught up")
    pieces.settle()
    assert append(writer)[0] == 0
    due_ms, woken_ms = pieces.worker.leading.next_deadline_ms, pieces.worker.next_deadline_ms()
    assert due_ms is not None and woken_ms is not None
    assert woken_ms <= due_ms
