"""OffsetForLeaderEpoch in every version, compared with what Apache Kafka 4.3.0 was seen to answer."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from kafkad.core.partition_slot import ROLE_FOLLOWER
from kafkad.handlers import offset_for_leader_epoch
from kafkad.handlers.requests.broker_view import BrokerView, ManifestPending
from kafkad.wire.api_table import OFFSET_FOR_LEADER_EPOCH
from kafkad.wire.primitives import MalformedRequest
from tests.contexts import a_context
from tests.core.log.batches import load
from tests.core.log.fake_store import FakeStore
from tests.handlers.kio_calls import KioApi, versions_of
from tests.handlers.logs_behind_views import RECORDS, SECOND_EPOCH_FROM, a_view_of_a_log, filled_log
from tests.handlers.stepping import finished
from tests.handlers.views import Logs, Slots, a_view

VERSIONS = versions_of(OFFSET_FOR_LEADER_EPOCH)


def asked(version: int, epoch: int, *, current: int = -1, topic: str = "text", partition: int = 0) -> memoryview:
    api = KioApi("offset_for_leader_epoch", version)
    row = api.part("OffsetForLeaderPartition", partition=partition, current_leader_epoch=current, leader_epoch=epoch)
    return api.request(replica_id=-1, topics=(api.part("OffsetForLeaderTopic", topic=topic, partitions=(row,)),))


def ask(view: BrokerView, epoch: int, version: int = 4, **options: Any) -> tuple[int, int, int]:
    """(error code, leader epoch, end offset)."""
    body = finished(offset_for_leader_epoch.handle(asked(version, epoch, **options), a_context(version), view))
    (topic,) = KioApi("offset_for_leader_epoch", version).read(body).topics
    assert topic.topic == options.get("topic", "text")
    (row,) = topic.partitions
    assert row.partition == options.get("partition", 0)
    return row.error_code.value, row.leader_epoch, row.end_offset


@pytest.mark.parametrize("version", VERSIONS)
def test_where_each_epoch_ended_is_told(version: int) -> None:
    view = a_view_of_a_log(filled_log())
    assert ask(view, 0, version) == (0, 0, SECOND_EPOCH_FROM)
    assert ask(view, 1, version) == (0, 1, RECORDS)


@pytest.mark.parametrize("version", VERSIONS)
def test_of_epochs_that_are_not_known_nothing_is_told(version: int) -> None:
    view = a_view_of_a_log(filled_log())
    assert ask(view, 2, version) == (0, -1, -1)
    assert ask(view, -1, version) == (0, -1, -1)


def test_a_leader_that_has_written_nothing_yet_is_known_all_the_same() -> None:
    view = a_view_of_a_log(filled_log(), leader_epoch=5)
    assert ask(view, 5) == (0, 5, RECORDS)
    assert ask(view, 3) == (0, 1, RECORDS)
    assert ask(view, 0) == (0, 0, SECOND_EPOCH_FROM)
    assert ask(view, 6) == (0, -1, -1)


def test_the_first_leader_of_an_empty_log_ends_where_it_begins() -> None:
    assert ask(a_view_of_a_log(load(FakeStore()), leader_epoch=0), 0) == (0, 0, 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_who_believes_in_another_leader_epoch_is_fenced(version: int) -> None:
    view = a_view_of_a_log(filled_log(), leader_epoch=1)
    assert ask(view, 0, version, current=0) == (ErrorCode.fenced_leader_epoch.value, -1, -1)
    assert ask(view, 0, version, current=2) == (ErrorCode.unknown_leader_epoch.value, -1, -1)
    assert ask(view, 0, version, current=1)[0] == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_that_are_not_there_are_unknown(version: int) -> None:
    view = a_view_of_a_log(filled_log())
    unknown = (ErrorCode.unknown_topic_or_partition.value, -1, -1)
    assert ask(view, 0, version, topic="none") == unknown
    assert ask(view, 0, version, partition=1) == unknown


def test_a_follower_does_not_answer() -> None:
    view = a_view_of_a_log(filled_log())
    slots = view.slots
    assert isinstance(slots, Slots)
    slots.published[0] = slots.published[0]._replace(role=ROLE_FOLLOWER)
    assert ask(view, 0) == (ErrorCode.not_leader_or_follower.value, -1, -1)


def test_a_manifest_that_is_not_here_is_waited_for() -> None:
    view = a_view_of_a_log(filled_log())
    logs = view.logs
    assert isinstance(logs, Logs)
    logs.readers.clear()
    with pytest.raises(ManifestPending):
        ask(view, 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_cut_off_anywhere_is_malformed(version: int) -> None:
    whole = bytes(asked(version, 0))
    for end in range(len(whole)):
        with pytest.raises(MalformedRequest):
            finished(offset_for_leader_epoch.handle(memoryview(whole[:end]), a_context(version), a_view()))
