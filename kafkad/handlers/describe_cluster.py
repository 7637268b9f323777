"""DescribeCluster, versions 0 to 2: the live brokers.

A request for controllers gets MISMATCHED_ENDPOINT_TYPE (KIP-919); version 0 has no endpoint types.
"""

from kafkad.core.controller.image import NO_CONTROLLER
from kafkad.core.errors import ErrorCode
from kafkad.core.request_context import RequestContext
from kafkad.handlers.requests.broker_rows import broker_rows
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.handlers.requests.operations import CLUSTER_OPERATIONS, NOT_REQUESTED
from kafkad.wire.kio_codec import Codec, codec

BROKERS, CONTROLLERS = 1, 2


def handle(body: memoryview, context: RequestContext, view: BrokerView) -> bytes:
    """The response body. Raises MalformedRequest."""
    messages = codec("describe_cluster", context.version)
    request = messages.decode(body)
    endpoint_type = request.endpoint_type if context.version >= 1 else BROKERS
    if endpoint_type != BROKERS:
        return _error_response(messages, endpoint_type)
    brokers = (
        messages.part("DescribeClusterBroker", broker_id=each, host=host, port=port, rack=rack, is_fenced=False)
        for each, host, port, rack in broker_rows(context, view)
    )
    return messages.encode(
        error_code=ErrorCode.NONE,
        error_message=None,
        endpoint_type=BROKERS,
        cluster_id=view.image.cluster_id,
        controller_id=view.controller_id,
        brokers=tuple(brokers),
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_REQUESTED
        ),
    )


def _error_response(messages: Codec, endpoint_type: int) -> bytes:
    if endpoint_type == CONTROLLERS:
        error = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        text = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
    else:
        error = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        text = f"Unsupported endpoint type {endpoint_type}"
    return messages.encode(
        error_code=error,
        error_message=text,
        endpoint_type=BROKERS,
        cluster_id="",
        controller_id=NO_CONTROLLER,
        brokers=(),
        cluster_authorized_operations=NOT_REQUESTED,
    )
