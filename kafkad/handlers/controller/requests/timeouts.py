"""The timeouts of requests to the controller, and the network process's response without a response of the controller.

REQUEST_TIMED_OUT if no controller took the request in time: nothing was changed, as with requests that Apache Kafka
could not forward. UNKNOWN_SERVER_ERROR, which clients do not retry, if the controller process died while it handled the
request.
"""

from kafkad.core.errors import ErrorCode
from kafkad.handlers.controller.requests.rejections import APIS, Rejection, error_response
from kafkad.wire import api_table
from kafkad.wire.kio_codec import codec, milliseconds

LONGEST_MS = 60_000
"""The longest timeout; also the timeout of requests without one."""
_TIMED_OUT = Rejection(ErrorCode.REQUEST_TIMED_OUT, "No controller received the request in time.")
_INTERRUPTED = "The controller process died while it handled the request; the request may have been completed."
_CODES_INTERRUPTED = {api_table.INIT_PRODUCER_ID: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
"""Codes instead of UNKNOWN_SERVER_ERROR. A producer without a transactional id may retry, as after Apache Kafka's
response while it has no block of producer ids.
"""


def is_between_brokers(api_key: int) -> bool:
    """Whether the request is from another broker, which retries on another connection after no response."""
    return api_key in api_table.CLUSTER_APIS


def timeout_of_ms(api_key: int, version: int, body: memoryview) -> int:
    """Raises MalformedRequest."""
    if is_between_brokers(api_key):
        return LONGEST_MS
    timeout = getattr(codec(APIS[api_key][0], version).decode(body), "timeout", None)
    return LONGEST_MS if timeout is None else max(0, min(milliseconds(timeout), LONGEST_MS))


def timed_out(api_key: int, version: int, body: memoryview) -> bytes:
    """The response body. Raises MalformedRequest."""
    return error_response(api_key, version, body, _TIMED_OUT)


def interrupted(api_key: int, version: int, body: memoryview) -> bytes:
    """The response body. Raises MalformedRequest."""
    code = _CODES_INTERRUPTED.get(api_key, ErrorCode.UNKNOWN_SERVER_ERROR)
    return error_response(api_key, version, body, Rejection(code, _INTERRUPTED))
