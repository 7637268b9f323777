"""What brokers ask each other about transactions has the bytes of kio's schemas, both ways."""

from datetime import timedelta
from io import BytesIO
from typing import Any

import pytest
from kio.schema.add_partitions_to_txn.v4 import request as verify_request
from kio.schema.add_partitions_to_txn.v4 import response as verify_response
from kio.schema.errors import ErrorCode as KioError
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.schema.write_txn_markers.v1 import request as marker_request
from kio.schema.write_txn_markers.v1 import response as marker_response
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32, i32Timedelta

from kafkad.core.errors import ErrorCode
from kafkad.wire.cluster.transactions import (
    ADD_PARTITIONS_TO_TXN_4,
    WRITE_TXN_MARKERS_1,
    TransactionToVerify,
    TxnMarker,
    VerificationRequest,
    VerificationResponse,
    WriteTxnMarkersRequest,
    by_topic,
)
from kafkad.wire.primitives import MalformedRequest

PARTITIONS = [("a", 0), ("b", 3), ("a", 2)]


def packed(entity: Any) -> bytes:
    buffer = BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def test_partitions_are_grouped_by_topic() -> None:
    assert [(each.name, each.partitions) for each in by_topic(PARTITIONS)] == [("a", (0, 2)), ("b", (3,))]


def test_markers_are_those_of_the_schema() -> None:
    marker = TxnMarker(
        producer_id=2**40, producer_epoch=5, is_commit=True, topics=by_topic(PARTITIONS), coordinator_epoch=9
    )
    body = WRITE_TXN_MARKERS_1.encode_request(WriteTxnMarkersRequest(markers=(marker,)), 1)
    read, end = entity_reader(marker_request.WriteTxnMarkersRequest)(body, 0)
    assert end == len(body)
    (found,) = read.markers
    assert (found.producer_id, found.producer_epoch, found.transaction_result) == (2**40, 5, True)
    assert found.coordinator_epoch == 9
    assert [(each.name, each.partition_indexes) for each in found.topics] == [("a", (0, 2)), ("b", (3,))]


def test_answers_about_markers_are_read() -> None:
    row = marker_response.WritableTxnMarkerPartitionResult
    rows = (
        row(partition_index=i32(0), error_code=KioError.none),
        row(partition_index=i32(2), error_code=KioError.not_leader_or_follower),
    )
    topic = marker_response.WritableTxnMarkerTopicResult(name=TopicName("a"), partitions=rows)
    result = marker_response.WritableTxnMarkerResult(producer_id=ProducerId(7), topics=(topic,))
    body = packed(marker_response.WriteTxnMarkersResponse(markers=(result,)))
    expected = {7: {("a", 0): ErrorCode.NONE, ("a", 2): ErrorCode.NOT_LEADER_OR_FOLLOWER}}
    assert WRITE_TXN_MARKERS_1.decode_response(memoryview(body), 1) == expected


@pytest.mark.parametrize("verify_only", [True, False])
def test_questions_are_those_of_the_schema(verify_only: bool) -> None:
    asked = TransactionToVerify(
        transactional_id="t",
        producer_id=7,
        producer_epoch=1,
        verify_only=verify_only,
        topics=by_topic(PARTITIONS),
    )
    body = ADD_PARTITIONS_TO_TXN_4.encode_request(VerificationRequest(transactions=(asked,)), 4)
    read, end = entity_reader(verify_request.AddPartitionsToTxnRequest)(body, 0)
    assert end == len(body)
    (found,) = read.transactions
    assert (found.transactional_id, found.producer_id, found.producer_epoch) == ("t", 7, 1)
    assert found.verify_only is verify_only
    assert [(each.name, each.partitions) for each in found.topics] == [("a", (0, 2)), ("b", (3,))]


def test_answers_about_transactions_are_read() -> None:
    row = verify_response.AddPartitionsToTxnPartitionResult(
        partition_index=i32(3), partition_error_code=KioError.invalid_txn_state
    )
    topic = verify_response.AddPartitionsToTxnTopicResult(name=TopicName("b"), results_by_partition=(row,))
    result = verify_response.AddPartitionsToTxnResult(transactional_id=TransactionalId("t"), topic_results=(topic,))
    response = verify_response.AddPartitionsToTxnResponse(
        throttle_time=i32Timedelta.parse(timedelta(0)), error_code=KioError.none, results_by_transaction=(result,)
    )
    expected = VerificationResponse(error_code=ErrorCode.NONE, codes={"t": {("b", 3): ErrorCode.INVALID_TXN_STATE}})
    assert ADD_PARTITIONS_TO_TXN_4.decode_response(memoryview(packed(response)), 4) == expected


def test_other_bytes_are_malformed() -> None:
    with pytest.raises(MalformedRequest):
        WRITE_TXN_MARKERS_1.decode_response(memoryview(b"\x07\x00"), 1)
    with pytest.raises(MalformedRequest):
        ADD_PARTITIONS_TO_TXN_4.decode_response(memoryview(b"\x00"), 4)
