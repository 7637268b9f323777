"""CreatePartitions, versions 0 to 3: increases the partition counts of topics."""

from typing import Any

from kafkad.core.controller.admin import create_partitions
from kafkad.core.controller.topics.topics import NewPartitions
from kafkad.core.request_context import RequestContext
from kafkad.handlers.controller.requests.controller_view import ControllerView, Response, ResponseAfter
from kafkad.wire.kio_codec import codec, milliseconds


def handle(body: memoryview, context: RequestContext, view: ControllerView) -> Response:
    messages = codec("create_partitions", context.version)
    request = messages.decode(body)
    results = create_partitions(
        view.controller,
        [new_partitions(topic) for topic in request.topics],
        validate_only=request.validate_only,
    )
    response = messages.encode(
        results=tuple(
            messages.part(
                "CreatePartitionsTopicResult",
                name=result.name,
                error_code=result.code,
                error_message=result.message,
            )
            for result in results
        )
    )
    if request.validate_only or all(result.code for result in results):
        return response
    return ResponseAfter(body=response, timeout_ms=milliseconds(request.timeout))


def new_partitions(topic: Any) -> NewPartitions:
    """A topic of the request."""
    assignments = None
    if topic.assignments is not None:
        assignments = tuple(tuple(each.broker_ids) for each in topic.assignments)
    return NewPartitions(name=topic.name, count=topic.count, assignments=assignments)
