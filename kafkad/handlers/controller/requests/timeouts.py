"""How long does a client wait for a controller, and which answer does it get from a network process instead?

If no controller took its request in that time, REQUEST_TIMED_OUT for everything in it, of which nothing was done: as
Apache Kafka answers requests that it could not forward. If the controller died while it handled the request,
UNKNOWN_SERVER_ERROR, which clients do not repeat.
"""

from kafkad.core.errors import ErrorCode
from kafkad.handlers.controller.requests.rejections import APIS, Rejection, refused
from kafkad.wire import api_table
from kafkad.wire.kio_codec import codec, milliseconds

LONGEST_MS = 60_000
"""Also for requests without a timeout of their own."""
_TIMED_OUT = Rejection(ErrorCode.REQUEST_TIMED_OUT, "No controller took the request in time.")
_INTERRUPTED = "The controller process ended while it handled the request, which may have been carried out."
_CODES_INTERRUPTED = {api_table.INIT_PRODUCER_ID: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
"""Others than UNKNOWN_SERVER_ERROR. A producer without a transactional id sends nothing that a process could die of. It
asks again, as when Apache Kafka has no block of ids.
"""


def is_between_brokers(api_key: int) -> bool:
    """Another broker's request, which is not answered but sent again on another connection."""
    return api_key in api_table.CLUSTER_APIS


def timeout_of_ms(api_key: int, version: int, body: memoryview) -> int:
    """Raises MalformedRequest."""
    if is_between_brokers(api_key):
        return LONGEST_MS
    timeout = getattr(codec(APIS[api_key][0], version).decode(body), "timeout", None)
    return LONGEST_MS if timeout is None else max(0, min(milliseconds(timeout), LONGEST_MS))


def timed_out(api_key: int, version: int, body: memoryview) -> bytes:
    """The response body. Raises MalformedRequest."""
    return refused(api_key, version, body, _TIMED_OUT)


def interrupted(api_key: int, version: int, body: memoryview) -> bytes:
    """The response body. Raises MalformedRequest."""
    code = _CODES_INTERRUPTED.get(api_key, ErrorCode.UNKNOWN_SERVER_ERROR)
    return refused(api_key, version, body, Rejection(code, _INTERRUPTED))
