"""WriteTxnMarkers: each owner is asked once, and each producer is answered once."""

from typing import Any

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.core.partition_slot import STATE_OFFLINE
from kafkad.handlers import write_txn_markers
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.handlers.write_txn_markers import PendingWriteTxnMarkers
from kafkad.wire.api_table import WRITE_TXN_MARKERS
from kafkad.wire.primitives import MalformedRequest
from kafkad.wire.processes.descriptors import TxnMarkerEntry, TxnMarkersWritten, WriteTxnMarkersOrder, short_topic_id
from tests.contexts import a_context
from tests.handlers.kio_calls import KioApi, versions_of
from tests.handlers.views import Slots, a_partition, a_topic, a_view

VERSIONS = versions_of(WRITE_TXN_MARKERS)
TOPIC = a_topic("a", 1, a_partition(0, 10, owner=0), a_partition(1, 11, owner=1), a_partition(2, 12, owner=0))
SHORT_ID = short_topic_id(TOPIC.id.bytes)
Marker = tuple[int, bool, tuple[int, ...]]


def asked(version: int, *markers: Marker, topic: str = "a") -> memoryview:
    """`markers` are (producer id, whether it commits, partitions)."""
    api = KioApi("write_txn_markers", version)
    newer: dict[str, Any] = {"transaction_version": 2} if version >= 2 else {}
    rows = tuple(
        api.part(
            "WritableTxnMarker",
            producer_id=producer_id,
            producer_epoch=3,
            transaction_result=commits,
            topics=(api.part("WritableTxnMarkerTopic", name=topic, partition_indexes=partitions),),
            coordinator_epoch=5,
            **newer,
        )
        for producer_id, commits, partitions in markers
    )
    return api.request(markers=rows)


def answers(pending: PendingWriteTxnMarkers, version: int) -> dict[int, dict[int, int]]:
    """Error by partition, by producer."""
    response = KioApi("write_txn_markers", version).read(pending.body())
    return {
        marker.producer_id: {
            row.partition_index: row.error_code.value for topic in marker.topics for row in topic.partitions
        }
        for marker in response.markers
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_each_owner_is_asked_once_for_all_its_markers(version: int) -> None:
    body = asked(version, (7, True, (0, 1)), (8, False, (2, 0)))
    pending = write_txn_markers.pending_request(body, a_context(version), a_view(TOPIC))
    newest = 2 if version >= 2 else 0

    assert sorted(pending.workers()) == [0, 1]
    assert pending.message(0, 4, 99) == WriteTxnMarkersOrder(
        4,
        [
            TxnMarkerEntry(7, 3, 5, True, newest, [(10, SHORT_ID)]),
            TxnMarkerEntry(8, 3, 5, False, newest, [(12, SHORT_ID), (10, SHORT_ID)]),
        ],
    )
    entry = TxnMarkerEntry(7, 3, 5, True, newest, [(11, SHORT_ID)])
    assert pending.message(1, 5, 99) == WriteTxnMarkersOrder(5, [entry])

    pending.complete(0, TxnMarkersWritten(4, [[0], [0, 52]]))
    pending.fail(1)
    assert answers(pending, version) == {7: {0: 0, 1: ErrorCode.NOT_LEADER_OR_FOLLOWER}, 8: {2: 0, 0: 52}}


def test_two_markers_of_a_producer_are_one_entry_of_the_answer() -> None:
    pending = write_txn_markers.pending_request(asked(2, (7, True, (0,)), (7, True, (2,))), a_context(2), a_view(TOPIC))
    pending.complete(0, TxnMarkersWritten(1, [[0], [47]]))
    assert answers(pending, 2) == {7: {0: 0, 2: 47}}


def test_no_marker_is_no_question() -> None:
    pending = write_txn_markers.pending_request(asked(2), a_context(2), a_view(TOPIC))
    assert (pending.workers(), answers(pending, 2)) == ([], {})


def test_what_is_not_there_or_offline_is_unknown() -> None:
    view: BrokerView = a_view(TOPIC)
    slots = view.slots
    assert isinstance(slots, Slots)
    slots.published[11] = slots.published[11]._replace(state=STATE_OFFLINE)
    pending = write_txn_markers.pending_request(asked(2, (7, True, (1, 9))), a_context(2), view)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (pending.workers(), answers(pending, 2)) == ([], {7: {1: unknown, 9: unknown}})


def test_a_request_that_is_cut_off_is_malformed() -> None:
    with pytest.raises(MalformedRequest):
        write_txn_markers.pending_request(asked(2, (7, True, (0,)))[:-3], a_context(2), a_view(TOPIC))
