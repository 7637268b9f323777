"""Calls the handler of a client's request, and turns exceptions into responses.

A response that can't be encoded becomes UNKNOWN_SERVER_ERROR, and the process continues, because the change is complete
and stored before the response is encoded. The same holds for any exception of a read-only handler. Other exceptions are
bugs that may leave a partial change, so they end the process.
"""

from kafkad.core.connections.log_rate_limit import LogRateLimit
from kafkad.core.request_context import RequestContext
from kafkad.handlers.controller.requests.apis_of_controller import DISPATCH
from kafkad.handlers.controller.requests.controller_view import ControllerView, Response
from kafkad.handlers.controller.requests.rejections import FAILED, UNENCODABLE, Rejection, error_response
from kafkad.handlers.requests.failures import failed, log_failure
from kafkad.wire.api_table import DESCRIBE_CONFIGS, LIST_CONFIG_RESOURCES, LIST_PARTITION_REASSIGNMENTS, unencodable
from kafkad.wire.primitives import MalformedRequest, UnencodableMessage

READ_ONLY = frozenset({DESCRIBE_CONFIGS, LIST_CONFIG_RESOURCES, LIST_PARTITION_REASSIGNMENTS})
"""The APIs whose handlers change no state."""


def response_to(body: memoryview, context: RequestContext, view: ControllerView) -> Response:
    """Raises MalformedRequest, also if not even an error can be encoded: the connection is closed."""
    try:
        return DISPATCH[context.api_key](body, context, view)
    except MalformedRequest:
        raise
    except UnencodableMessage as error:
        return unencodable_response(body, context, error, view.log_rate_limit)
    except Exception as bug:
        if context.api_key not in READ_ONLY:
            raise
        return _error_response(body, context, FAILED, failed(context, bug), view.log_rate_limit)


def unencodable_response(
    body: memoryview, context: RequestContext, error: UnencodableMessage, log_rate_limit: LogRateLimit
) -> bytes:
    """Raises MalformedRequest."""
    reason = unencodable(context.api_key, context.version, error)
    return _error_response(body, context, UNENCODABLE, reason, log_rate_limit)


def _error_response(
    body: memoryview, context: RequestContext, rejection: Rejection, reason: str, log_rate_limit: LogRateLimit
) -> bytes:
    log_failure(log_rate_limit, context, reason)
    try:
        return error_response(context.api_key, context.version, body, rejection)
    except UnencodableMessage as error:
        raise MalformedRequest(reason) from error
