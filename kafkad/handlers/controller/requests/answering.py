"""Calls the handler of a client's request. An answer that can't be encoded ends no process.

By the time it is encoded a change is stored and consistent. So the client gets UNKNOWN_SERVER_ERROR, and the process
goes on. So it does after any exception of a handler that only reads. One of another handler is a bug, perhaps in the
middle of a change, and ends the process.
"""

from kafkad.core.connections.complaints import Complaints
from kafkad.core.request_context import RequestContext
from kafkad.handlers.controller.requests.apis_of_controller import DISPATCH
from kafkad.handlers.controller.requests.controller_view import Answer, ControllerView
from kafkad.handlers.controller.requests.refusals import FAILED, UNENCODABLE, Refusal, refused
from kafkad.handlers.requests.failures import failed, log_failure
from kafkad.wire.api_table import DESCRIBE_CONFIGS, LIST_CONFIG_RESOURCES, LIST_PARTITION_REASSIGNMENTS, unencodable
from kafkad.wire.primitives import MalformedRequest, UnencodableMessage

READ_ONLY = frozenset({DESCRIBE_CONFIGS, LIST_CONFIG_RESOURCES, LIST_PARTITION_REASSIGNMENTS})
"""Their handlers change nothing, so whatever they raise leaves the state as it was."""


def answer_to(body: memoryview, context: RequestContext, view: ControllerView) -> Answer:
    """Raises MalformedRequest, also for a request that has no answer in its version: its connection is closed."""
    try:
        return DISPATCH[context.api_key](body, context, view)
    except MalformedRequest:
        raise
    except UnencodableMessage as error:
        return unencodable_answer(body, context, error, view.complaints)
    except Exception as bug:
        if context.api_key not in READ_ONLY:
            raise
        return _instead(body, context, FAILED, failed(context, bug), view.complaints)


def unencodable_answer(
    body: memoryview, context: RequestContext, error: UnencodableMessage, complaints: Complaints
) -> bytes:
    """Raises MalformedRequest."""
    reason = unencodable(context.api_key, context.version, error)
    return _instead(body, context, UNENCODABLE, reason, complaints)


def _instead(body: memoryview, context: RequestContext, refusal: Refusal, reason: str, complaints: Complaints) -> bytes:
    log_failure(complaints, context, reason)
    try:
        return refused(context.api_key, context.version, body, refusal)
    except UnencodableMessage as error:
        raise MalformedRequest(reason) from error
