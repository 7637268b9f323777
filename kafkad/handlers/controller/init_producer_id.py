"""InitProducerId, versions 0 to 5, of producers without a transactional id.

Coordinators handle requests with a transactional id.
"""

from kafkad.core.controller.producer_ids import UnreadableBlock
from kafkad.core.errors import ErrorCode
from kafkad.core.ports import NoSpaceLeft
from kafkad.core.request_context import RequestContext
from kafkad.handlers.controller.requests.controller_view import ControllerView, Response
from kafkad.wire.kio_codec import codec

_FIRST_EPOCH = 0


def handle(body: memoryview, context: RequestContext, view: ControllerView) -> Response:
    messages = codec("init_producer_id", context.version)
    assert messages.decode(body).transactional_id is None, "it belongs to the coordinator"
    try:
        # As in Apache Kafka, an idempotent producer that sends its id and epoch (version 3) gets a new id too.
        producer_id = view.producer_ids.allocate()
    except (NoSpaceLeft, UnreadableBlock):
        # Apache Kafka's response while it has no block of producer ids: clients retry.
        return messages.encode(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, producer_id=-1, producer_epoch=-1)
    return messages.encode(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=_FIRST_EPOCH)
