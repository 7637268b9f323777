"""Requests to the elected controller that are handled in pieces: the next piece follows when the last one is applied.

At its timeout a request gets a response, with an error for the remaining pieces. These are handled all the same.
"""

from collections.abc import Callable, Sequence
from functools import partial

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.controller.admin import auto_create_topics
from kafkad.core.controller.elected.elected import ElectedController
from kafkad.core.controller.topics.topics import TopicResult, TopicResults
from kafkad.core.errors import ErrorCode
from kafkad.handlers.controller.requests.controller_view import LONGEST_WAIT_MS, ControllerView, ResponseAfter
from kafkad.handlers.controller.requests.pieces import joined, pieces_of, pieces_of_names
from kafkad.handlers.controller.requests.responses import response_to
from kafkad.handlers.controller.requests.timeouts import LONGEST_MS, is_between_brokers, timed_out
from kafkad.processes.controller.internal_topics import warn_of_few_replicas
from kafkad.wire.processes.controller_messages import AdminReply, AdminRequest, AutoCreateRequest


class RequestInPieces:
    """A request of a client or another broker. `handle_next` runs in the store's thread, all else in the loop."""

    def __init__(self, peer: ProcessKey, request: AdminRequest, now_ms: int) -> None:
        self.peer, self.request, self.token = peer, request, request.token
        self.timeout_at_ms = now_ms + LONGEST_MS
        self.is_replied = False
        self._began_ms = now_ms
        self._bodies: Sequence[Callable[[], bytes]] = ()
        self._responses: list[bytes] = []

    def handle_next(self, controller: ElectedController, view: ControllerView) -> None:
        """Handle the next piece. Raises MalformedRequest."""
        context = self.request.context
        if not self._bodies:
            pieces = pieces_of(context.api_key, context.version, memoryview(self.request.body), controller)
            self._bodies = pieces.bodies
            if pieces.timeout_ms is not None:
                self.timeout_at_ms = self._began_ms + pieces.timeout_ms
        body = self._bodies[len(self._responses)]()
        response = response_to(memoryview(body), context, view)
        if isinstance(response, ResponseAfter):
            self.timeout_at_ms = self._began_ms + response.timeout_ms
            response = response.body
        self._responses.append(response)

    def respond(self, body: bytes) -> None:
        """Set the response to a request in one piece."""
        self._bodies, self._responses = [partial(bytes, self.request.body)], [body]

    @property
    def is_handled(self) -> bool:
        return bool(self._bodies) and len(self._responses) == len(self._bodies)

    def reply(self) -> AdminReply:
        """With REQUEST_TIMED_OUT for the remaining pieces. Raises MalformedRequest and UnencodableMessage."""
        context, responses = self.request.context, list(self._responses)
        if not responses and is_between_brokers(context.api_key):
            return AdminReply(self.token, None, "the controller did not handle the request in time")
        bodies = self._bodies or [partial(bytes, self.request.body)]
        late = [timed_out(context.api_key, context.version, memoryview(body())) for body in bodies[len(responses) :]]
        return AdminReply(self.token, joined(context.api_key, context.version, [*responses, *late]))


class CreationInPieces:
    """Topics that a request uses. Clients retry after UNKNOWN_TOPIC_OR_PARTITION."""

    def __init__(self, peer: ProcessKey, message: AutoCreateRequest, now_ms: int) -> None:
        self.peer, self.token, self.names = peer, message.token, message.names
        self.timeout_at_ms = now_ms + LONGEST_WAIT_MS
        self.is_replied = False
        self._pieces: Sequence[list[str]] = ()
        self._handled = 0
        self._results: dict[str, TopicResult] = {}

    def handle_next(self, controller: ElectedController, view: ControllerView) -> None:
        if not self._pieces:
            self._pieces = pieces_of_names(self.names, controller)
        some, before = self._pieces[self._handled], controller.image
        self._results |= auto_create_topics(controller, some, view.configs, view.random_source)
        self._handled += 1
        created = [name for name in some if name not in before.topics and name in controller.image.topics]
        if controller.settings.is_single:
            warn_of_few_replicas(created, controller.settings.internal_topics, len(before.brokers))

    @property
    def is_handled(self) -> bool:
        return bool(self._pieces) and self._handled == len(self._pieces)

    def results(self) -> TopicResults:
        """So far."""
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return {name: self._results.get(name) or TopicResult(name=name, code=unknown) for name in self.names}


PiecewiseRequest = RequestInPieces | CreationInPieces
