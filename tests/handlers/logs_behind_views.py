"""A view whose first partition is a log that a worker would own: 60 records in 20 batches of epochs 0 and 1."""

from kafkad.core.controller.image import Topic
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.reading.log_reader import LogReader
from kafkad.core.partition_slot import ROLE_LEADER, STATE_ONLINE, PartitionSlot
from kafkad.handlers.requests.broker_view import BrokerView
from tests.core.log.batches import NOW, append, batch, load
from tests.core.log.fake_store import FakeStore
from tests.handlers.views import Logs, Slots, a_partition, a_topic, a_view

BATCHES, RECORDS = 20, 60
SECOND_EPOCH_FROM = 30


def filled_log() -> PartitionLog:
    """Record n of batch b has the timestamp NOW + 10 b + n; three records a batch, epoch 1 from the tenth on."""
    log = load(FakeStore())
    for number in range(BATCHES):
        append(log, batch(3, timestamp=NOW + 10 * number), epoch=number // 10)
    return log


def publish(view: BrokerView, topic: Topic, log: PartitionLog, leader_epoch: int) -> None:
    """What its worker publishes of `log`, and a manifest that is here already."""
    slots, logs = view.slots, view.logs
    assert isinstance(slots, Slots) and isinstance(logs, Logs)
    end, committed, stable = log.log_end, log.high_watermark, log.last_stable
    slots.published[topic.partitions[0].slot] = PartitionSlot(
        topic_id=topic.id.bytes,
        partition=0,
        owner=0,
        log_dir=0,
        role=ROLE_LEADER,
        state=STATE_ONLINE,
        leader_epoch=leader_epoch,
        generation=log.generation,
        log_start=log.log_start_offset,
        hw_offset=committed.offset,
        hw_segment=committed.segment_base,
        hw_position=committed.position,
        lso_offset=stable.offset,
        lso_segment=stable.segment_base,
        lso_position=stable.position,
        leo_offset=end.offset,
        leo_segment=end.segment_base,
        leo_position=end.position,
        size_bytes=log.size_bytes,
    )
    logs.readers[topic.partitions[0].slot] = LogReader(log.store, log.manifest())


def a_view_of_a_log(log: PartitionLog, leader_epoch: int = 1) -> BrokerView:
    topic = a_topic("text", 7, a_partition(leader_epoch=leader_epoch))
    view = a_view(topic)
    publish(view, topic, log, leader_epoch)
    return view
