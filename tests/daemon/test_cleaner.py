"""A real cleaner process; the test plays the controller and the worker.

It needs a real process: a policy that does not return is interrupted by a signal, and a worker dies meanwhile.
"""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID

import pytest

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.cleaning import quarantine
from kafkad.core.cleanup import CleanupEffect, LogSummary, RollActive
from kafkad.core.controller.deltas import BrokerConfigChanged, MetadataDelta, TopicConfigChanged, encode, snapshot
from kafkad.core.controller.image import DEFAULT_BROKER, Broker, MetadataImage, Partition, Topic
from kafkad.core.log.settings import LogConfig
from kafkad.core.partition_slot import STATE_ONLINE, PartitionSlot
from kafkad.processes.cleaner import main, time_limit
from kafkad.wire.processes.controller_messages import DELTA, SnapshotRequest, pack_delta, unpack_message
from kafkad.wire.processes.descriptors import (
    CleanupOrdered,
    SegmentRow,
    SegmentsDescribed,
    SegmentsOf,
    SegmentsRequest,
    pack_control,
    short_topic_id,
    unpack_control,
)
from tests.daemon.stage import Stage

CLEANER, CONTROLLER, WORKER = ProcessKey("cleaner", 0), ProcessKey("controller", 0), ProcessKey("worker", 0)
ID = UUID(int=7)
SHORT_ID = short_topic_id(ID.bytes)
NEVER = (("log.retention.check.interval.ms", "3600000"), ("log.initial.task.delay.ms", "3600000"))
OFTEN = (("log.retention.check.interval.ms", "20"), ("log.initial.task.delay.ms", "1"))


class Broken:
    """Fails for partition 0 of each topic, rolls the others."""

    name = "broken"

    def plan(self, log: LogSummary, config: LogConfig, now_ms: int) -> Sequence[CleanupEffect]:
        if log.partition == 0:
            raise ValueError("no such index")
        return [RollActive(reason="because")]


class Slow:
    """Does not return when it is asked for the first time."""

    name = "slow"

    def __init__(self) -> None:
        self._asked = 0

    def plan(self, log: LogSummary, config: LogConfig, now_ms: int) -> Sequence[CleanupEffect]:
        self._asked += 1
        if self._asked == 1:
            threading.Event().wait()
        return [RollActive(reason="at last")]


@pytest.fixture(params=[OFTEN])
def stage(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    stage = Stage(tmp_path, [CONTROLLER, WORKER, CLEANER], request.param)
    stage.plugins.cleanup_policies["broken"] = Broken()  # type: ignore[index]
    yield stage
    stage.close()


def _image(partitions: int, configs: dict[str, str], version: int = 1) -> MetadataImage:
    rows = tuple(
        Partition(
            index=index,
            slot=index,
            owner=0,
            log_dir=0,
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            replicas=(1,),
            isr=(1,),
        )
        for index in range(partitions)
    )
    topic = Topic(name="t", id=ID, partitions=rows, configs=configs)
    broker = Broker(id=1, epoch=1, listeners=(), rack=None)
    return MetadataImage(
        version=version, cluster_id="c", brokers={1: broker}, topics={"t": topic}, names_by_id={ID: "t"}
    )


def _publish(stage: Stage, slot: int, *, size: int = 1000, segments: int = 2) -> None:
    stage.shared.table.publish(
        slot,
        PartitionSlot(
            topic_id=ID.bytes, partition=slot, owner=0, state=STATE_ONLINE, size_bytes=size, segment_count=segments
        ),
    )


def _begin(stage: Stage, image: MetadataImage) -> None:
    stage.fork(CLEANER, main)
    stage.play(CONTROLLER, WORKER)
    stage.until_ready()
    stage.actors[CONTROLLER].send(CLEANER, pack_delta(encode(snapshot(image))))


def _questions(stage: Stage) -> list[SegmentsRequest]:
    messages = [unpack_control(frame) for frame in stage.actors[WORKER].frames]
    return [message for message in messages if isinstance(message, SegmentsRequest)]


def _orders(stage: Stage) -> list[CleanupOrdered]:
    messages = [unpack_control(frame) for frame in stage.actors[WORKER].frames]
    return [message for message in messages if isinstance(message, CleanupOrdered)]


def _describe(question: SegmentsRequest) -> SegmentsDescribed:
    """Two segments each, the first of them as old as time."""
    rows = [SegmentRow(0, 500, 0, 0, False, -1), SegmentRow(10, 500, 2**50, 2**50, True, -1)]
    described = [SegmentsOf(slot, 0, 20, 20, 20, -1, rows) for slot, _ in question.partitions]
    return SegmentsDescribed(question.part_id, described)


def _answer_round(stage: Stage) -> SegmentsRequest:
    """Answer the next question that comes, as a worker would."""
    known = len(_questions(stage))
    stage.until(lambda: len(_questions(stage)) > known, "the cleaner asks")
    question = _questions(stage)[known]
    stage.actors[WORKER].send(CLEANER, pack_control(_describe(question)))
    return question


def test_retention_orders_what_is_old_to_be_deleted(stage: Stage) -> None:
    _publish(stage, 0)
    _begin(stage, _image(1, {"retention.ms": "1000"}))
    _answer_round(stage)
    stage.until(lambda: _orders(stage), "the cleaner orders")
    assert _orders(stage)[0] == CleanupOrdered(0, SHORT_ID, False, 0, 10, "retention.ms=1000")


def test_an_empty_log_and_one_that_is_not_there_are_not_asked_about(stage: Stage) -> None:
    _publish(stage, 0, size=0, segments=1)
    _publish(stage, 1)
    _begin(stage, _image(3, {}))
    assert _answer_round(stage).partitions == [(1, SHORT_ID)]


@pytest.mark.parametrize("stage", [NEVER], indirect=True)
def test_many_partitions_are_asked_about_in_chunks_one_after_the_other(stage: Stage) -> None:
    for slot in range(450):
        _publish(stage, slot)
    _begin(stage, _image(450, {}))
    stage.until(lambda: stage.shared.registry.applied_version(CLEANER) == 1, "the snapshot is applied")
    change = TopicConfigChanged("t", {"retention.ms": "1000"})
    stage.actors[CONTROLLER].send(CLEANER, pack_delta(encode(MetadataDelta(2, (change,)))))
    sizes = [len(_answer_round(stage).partitions) for _ in range(3)]
    assert sorted(sizes, reverse=True) == [200, 200, 50]


@pytest.mark.parametrize("stage", [NEVER], indirect=True)
def test_logs_are_looked_at_when_their_configuration_changes(stage: Stage) -> None:
    for slot in range(2):
        _publish(stage, slot)
    _begin(stage, _image(2, {}))
    stage.until(lambda: stage.shared.registry.applied_version(CLEANER) == 1, "the snapshot is applied")
    change = TopicConfigChanged("t", {"retention.ms": "1000"})
    stage.actors[CONTROLLER].send(CLEANER, pack_delta(encode(MetadataDelta(2, (change,)))))
    assert _answer_round(stage).partitions == [(0, SHORT_ID), (1, SHORT_ID)]
    stage.until(lambda: len(_orders(stage)) == 2, "the cleaner orders")
    assert _orders(stage)[0] == CleanupOrdered(0, SHORT_ID, False, 0, 10, "retention.ms=1000")


@pytest.mark.parametrize("stage", [NEVER], indirect=True)
def test_logs_are_looked_at_when_the_broker_s_configuration_changes(stage: Stage) -> None:
    _publish(stage, 0)
    _begin(stage, _image(1, {}))
    stage.until(lambda: stage.shared.registry.applied_version(CLEANER) == 1, "the snapshot is applied")
    change = BrokerConfigChanged(DEFAULT_BROKER, {"log.retention.ms": "2000"})
    stage.actors[CONTROLLER].send(CLEANER, pack_delta(encode(MetadataDelta(2, (change,)))))
    _answer_round(stage)
    stage.until(lambda: _orders(stage), "the cleaner orders")
    assert _orders(stage)[0].reason == "retention.ms=2000"


def test_a_policy_that_fails_costs_one_partition_its_cleaning_until_its_configuration_changes(
    stage: Stage, capfd: pytest.CaptureFixture[str]
) -> None:
    _publish(stage, 0)
    _publish(stage, 1)
    image = _image(2, {"cleanup.policy": "broken"})
    _begin(stage, image)
    # An answer that comes late, when the next round has begun, counts for nothing.
    while len(_orders(stage)) < 3:
        _answer_round(stage)
    assert {order.slot for order in _orders(stage)} == {1}
    assert capfd.readouterr().err.count("t-0 is not cleaned by policy 'broken'") == 1

    change = TopicConfigChanged("t", {"cleanup.policy": "broken", "retention.ms": "1"})
    stage.actors[CONTROLLER].send(CLEANER, pack_delta(encode(MetadataDelta(2, (change,)))))
    stage.until(lambda: stage.shared.registry.applied_version(CLEANER) == 2, "the change is applied")
    said = ""
    while "t-0 is not cleaned" not in said:
        _answer_round(stage)
        said += capfd.readouterr().err


@pytest.mark.parametrize("stage", [NEVER], indirect=True)
def test_a_policy_that_does_not_return_is_asked_again_when_its_pause_ends(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_limit, "CHECK_INTERVAL_S", 0.05)
    monkeypatch.setattr(time_limit, "WAITS_S", 0.2)
    monkeypatch.setattr(quarantine, "FIRST_PAUSE_MS", 500)
    stage.plugins.cleanup_policies["slow"] = Slow()  # type: ignore[index]
    _publish(stage, 0)
    _begin(stage, _image(1, {"cleanup.policy": "slow"}))
    stage.until(lambda: stage.shared.registry.applied_version(CLEANER) == 1, "the snapshot is applied")
    change = TopicConfigChanged("t", {"cleanup.policy": "slow", "retention.ms": "1"})
    stage.actors[CONTROLLER].send(CLEANER, pack_delta(encode(MetadataDelta(2, (change,)))))
    _answer_round(stage)
    _answer_round(stage)
    stage.until(lambda: _orders(stage), "the cleaner orders")
    assert _orders(stage)[0].reason == "at last"


def test_a_worker_that_dies_in_the_middle_of_a_round_is_asked_again_in_the_next(stage: Stage) -> None:
    _publish(stage, 0)
    _begin(stage, _image(1, {}))
    stage.until(lambda: _questions(stage), "the cleaner asks")
    stage.end_actor(WORKER)
    stage.play(WORKER)
    assert _answer_round(stage).partitions == [(0, SHORT_ID)]


def test_a_gap_in_the_metadata_makes_it_ask_for_everything(stage: Stage) -> None:
    _begin(stage, _image(1, {}))
    stage.until(lambda: stage.shared.registry.applied_version(CLEANER) == 1, "the snapshot is applied")
    controller = stage.actors[CONTROLLER]
    controller.frames.clear()
    controller.send(CLEANER, pack_delta(encode(MetadataDelta(3, ()))))
    stage.until(lambda: controller.frames, "the cleaner asks for a snapshot")
    assert controller.frames[0][0] != DELTA
    assert unpack_message(controller.frames[0]) == SnapshotRequest(1)


def test_stops_when_told(stage: Stage) -> None:
    _begin(stage, _image(1, {}))
    assert stage.stop().is_clean
