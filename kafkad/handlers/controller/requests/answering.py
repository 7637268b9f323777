"""Calls the handler of a client's request. An answer that can't be encoded ends no process.

By the time it is encoded a change is stored and consistent. So the client gets UNKNOWN_SERVER_ERROR, and the process
goes on. Any other exception of a handler is a bug in the middle of a change, and ends the process.
"""

import logging

from kafkad.core.request_context import RequestContext
from kafkad.handlers.controller.requests.apis_of_controller import DISPATCH
from kafkad.handlers.controller.requests.controller_view import Answer, ControllerView
from kafkad.handlers.controller.requests.refusals import UNENCODABLE, refused
from kafkad.wire.api_table import unencodable
from kafkad.wire.primitives import MalformedRequest, UnencodableMessage

log = logging.getLogger(__name__)


def answer_to(body: memoryview, context: RequestContext, view: ControllerView) -> Answer:
    """Raises MalformedRequest, also for a request that has no answer in its version: its connection is closed."""
    try:
        return DISPATCH[context.api_key](body, context, view)
    except UnencodableMessage as error:
        return unencodable_answer(body, context, error)


def unencodable_answer(body: memoryview, context: RequestContext, error: UnencodableMessage) -> bytes:
    """Raises MalformedRequest."""
    reason = unencodable(context.api_key, context.version, error)
    log.error("%s: %s", context.client.address, reason)
    try:
        return refused(context.api_key, context.version, body, UNENCODABLE)
    except UnencodableMessage:
        raise MalformedRequest(reason) from error
