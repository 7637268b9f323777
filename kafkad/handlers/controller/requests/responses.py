"""Calls the handler of a client's request. An answer that can't be encoded ends no process.

By the time it is encoded a change is stored and consistent. So the client gets UNKNOWN_SERVER_ERROR, and the process
goes on. So it does after any exception of a handler that only reads. One of another handler is a bug, perhaps in the
middle of a change, and ends the process.
"""

from kafkad.core.connections.log_rate_limit import LogRateLimit
from kafkad.core.request_context import RequestContext
from kafkad.handlers.controller.requests.apis_of_controller import DISPATCH
from kafkad.handlers.controller.requests.controller_view import Answer, ControllerView
from kafkad.handlers.controller.requests.rejections import FAILED, UNENCODABLE, Rejection, refused
from kafkad.handlers.requests.failures import failed, log_failure
from kafkad.wire.api_table import DESCRIBE_CONFIGS, LIST_CONFIG_RESOURCES, LIST_PARTITION_REASSIGNMENTS, unencodable
from kafkad.wire.primitives import MalformedRequest, UnencodableMessage

READ_ONLY = frozenset({DESCRIBE_CONFIGS, LIST_CONFIG_RESOURCES, LIST_PARTITION_REASSIGNMENTS})
"""Their handlers change nothing, so whatever they raise leaves the state as it was."""


def response_to(body: memoryview, context: RequestContext, view: ControllerView) -> Answer:
    """Raises MalformedRequest, also for a request that has no answer in its version: its connection is closed."""
    try:
        return DISPATCH[context.api_key](body, context, view)
    except MalformedRequest:
        raise
    except UnencodableMessage as error:
        return unencodable_response(body, context, error, view.log_rate_limit)
    except Exception as bug:
        if context.api_key not in READ_ONLY:
            raise
        return _instead(body, context, FAILED, failed(context, bug), view.log_rate_limit)


def unencodable_response(
    body: memoryview, context: RequestContext, error: UnencodableMessage, log_rate_limit: LogRateLimit
) -> bytes:
    """Raises MalformedRequest."""
    reason = unencodable(context.api_key, context.version, error)
    return _instead(body, context, UNENCODABLE, reason, log_rate_limit)


def _instead(
    body: memoryview, context: RequestContext, refusal: Rejection, reason: str, log_rate_limit: LogRateLimit
) -> bytes:
    log_failure(log_rate_limit, context, reason)
    try:
        return refused(context.api_key, context.version, body, refusal)
    except UnencodableMessage as error:
        raise MalformedRequest(reason) from error
