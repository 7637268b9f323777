"""The log lines of failed requests: malformed, unencodable, or a bug in a handler."""

import logging
from traceback import extract_tb

from kafkad.core.connections.log_rate_limit import LogRateLimit
from kafkad.core.connections.peer_address import network_of
from kafkad.core.quoting import logged
from kafkad.core.request_context import RequestContext
from kafkad.wire.api_table import APIS, malformed, unencodable
from kafkad.wire.framing import RequestHeader
from kafkad.wire.primitives import MalformedRequest, UnencodableMessage

log = logging.getLogger(__name__)


def log_failure(log_rate_limit: LogRateLimit, context: RequestContext, reason: str) -> None:
    """Log at most once a minute for each address and API, because clients may retry without limit."""
    host = context.client.address
    if log_rate_limit.is_due((network_of(host), context.api_key), context.received_ms):
        log.error("%s: %s", host, reason)


def failed(request: RequestContext | RequestHeader, error: Exception) -> str:
    """The description of a bug in the handling of a request."""
    where = extract_tb(error.__traceback__)
    place = f" ({where[-1].filename}:{where[-1].lineno})" if where else ""
    name, cause = APIS[request.api_key].name, f"{type(error).__name__}: {logged(str(error))}"
    return f"{name} (version {request.version}) failed: {cause}{place}"


def reason_to_close(request: RequestContext | RequestHeader, error: Exception) -> str:
    """The reason in the log line when a failed request closes its connection."""
    if isinstance(error, UnencodableMessage):
        return unencodable(request.api_key, request.version, error)
    if isinstance(error, MalformedRequest):
        return malformed(request.api_key, request.version, error)
    return failed(request, error)
