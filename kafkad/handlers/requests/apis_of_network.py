"""The APIs that the network process handles: some by itself, some with messages to the owners of partitions.

Other APIs have request handlers of their own (processes/network/dispatch.py). Handlers translate a `KafkaError` into
the error code of the topic, partition or request that it is about. A `KafkaError` that leaves a handler is a bug and
ends the process.
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
from kafkad.handlers.partitions.owner_request import OwnerRequest
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.handlers.requests.steps import Steps
from kafkad.wire import api_table


class LocalHandler(Protocol):
    """Returns the response body, or the steps that make it. Raises MalformedRequest."""

    def __call__(self, body: memoryview, context: RequestContext, view: BrokerView) -> bytes | Steps: ...


class OwnerRequestFactory(Protocol):
    """Returns the pending request of an API that owners handle. Raises MalformedRequest."""

    def __call__(self, body: memoryview, context: RequestContext, view: BrokerView) -> OwnerRequest: ...


LOCAL: dict[int, LocalHandler] = {
    api_table.DESCRIBE_CLUSTER: describe_cluster.handle,
    api_table.DESCRIBE_LOG_DIRS: describe_log_dirs.handle,
    api_table.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions.handle,
    api_table.LIST_OFFSETS: list_offsets.handle,
    api_table.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch.handle,
}

OWNER_REQUESTS: dict[int, OwnerRequestFactory] = {
    api_table.DELETE_RECORDS: delete_records.pending_request,
    api_table.DESCRIBE_PRODUCERS: describe_producers.pending_request,
    api_table.WRITE_TXN_MARKERS: write_txn_markers.pending_request,
}
