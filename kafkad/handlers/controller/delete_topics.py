"""DeleteTopics, versions 1 to 6: by name, from version 6 on also by id.

The response is sent when the partitions' directories are deleted, or at the client's timeout; the deletion then
continues in the background.
"""

from kafkad.core.controller.topics.deletion import TopicToDelete, delete_topics
from kafkad.core.errors import ErrorCode
from kafkad.core.request_context import RequestContext
from kafkad.core.types import NO_TOPIC_ID
from kafkad.handlers.controller.requests.controller_view import ControllerView, Response, ResponseAfter
from kafkad.wire.kio_codec import codec, kio_id, milliseconds

_BY_ID_FROM = 6


def handle(body: memoryview, context: RequestContext, view: ControllerView) -> Response:
    messages = codec("delete_topics", context.version)
    request = messages.decode(body)
    if context.version >= _BY_ID_FROM:
        entries = [TopicToDelete(each.name, each.topic_id or NO_TOPIC_ID) for each in request.topics]
    else:
        entries = [TopicToDelete(name) for name in request.topic_names]
    results = delete_topics(view.controller, entries, version=context.version)
    response = messages.encode(
        responses=tuple(
            messages.part(
                "DeletableTopicResult",
                name=result.name,
                topic_id=kio_id(result.id),
                error_code=result.code,
                error_message=result.message,
            )
            for result in results
        )
    )
    if not any(each.code is ErrorCode.NONE for each in results):
        return response
    return ResponseAfter(body=response, timeout_ms=milliseconds(request.timeout))
