"""How the network process handles each API: it answers by itself, or asks the owners of partitions.

Other APIs have request handlers of their own (processes/network/dispatch.py). Handlers turn a `KafkaError` into the
code of the part of the request that it is about; one that gets here is a bug, and ends the process.
"""

from typing import Protocol

from kafkad.core.request_context import RequestContext
from kafkad.handlers import (
    delete_records,
    describe_cluster,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    list_offsets,
    offset_for_leader_epoch,
    write_txn_markers,
)
from kafkad.handlers.partitions.owner_question import OwnerQuestion
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.handlers.requests.steps import Steps
from kafkad.wire import api_table


class LocalHandler(Protocol):
    """Takes a request's body; returns the response's, or the steps that lead to it. Raises MalformedRequest."""

    def __call__(self, body: memoryview, context: RequestContext, view: BrokerView) -> bytes | Steps: ...


class AskOwners(Protocol):
    """Takes a request's body; returns the question to the owners. Raises MalformedRequest."""

    def __call__(self, body: memoryview, context: RequestContext, view: BrokerView) -> OwnerQuestion: ...


LOCAL: dict[int, LocalHandler] = {
    api_table.DESCRIBE_CLUSTER: describe_cluster.handle,
    api_table.DESCRIBE_LOG_DIRS: describe_log_dirs.handle,
    api_table.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions.handle,
    api_table.LIST_OFFSETS: list_offsets.handle,
    api_table.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch.handle,
}

OWNER_QUESTIONS: dict[int, AskOwners] = {
    api_table.DELETE_RECORDS: delete_records.question,
    api_table.DESCRIBE_PRODUCERS: describe_producers.question,
    api_table.WRITE_TXN_MARKERS: write_txn_markers.question,
}
