"""ListPartitionReassignments, version 0: none is ever under way, as replicas don't move between brokers yet."""

from kafkad.core.errors import ErrorCode
from kafkad.core.request_context import RequestContext
from kafkad.handlers.controller.requests.controller_view import Answer, ControllerView
from kafkad.wire.kio_codec import codec


def handle(body: memoryview, context: RequestContext, view: ControllerView) -> Answer:
    messages = codec("list_partition_reassignments", context.version)
    messages.decode(body)
    return messages.encode(error_code=ErrorCode.NONE, error_message=None, topics=())
