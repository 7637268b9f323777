"""What the elected controller and the host of one broker know of each other: the one is told, the other carries out.

Every broker of a cluster has both; the elected controller decides only while this broker is elected.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.cluster.request_parts import ControlRequest, ControlResponse
from kafkad.core.controller.image import Broker, MetadataImage
from kafkad.core.controller.topics.topics import NewTopic
from kafkad.core.coordination_store import Event
from kafkad.processes.controller.cluster.tree_reader import Configs
from kafkad.wire.processes.controller_messages import AdminRequest, ControllerMessage

OnResponse = Callable[[ControlResponse], None]


class Host(Protocol):
    """What the elected part asks of its own broker."""

    @property
    def image(self) -> MetadataImage:
        """Its `controller_id` is the broker whose UpdateMetadata came last: where AlterPartition goes."""

    @property
    def controller_epoch(self) -> int:
        """The epoch of the controller whose request came last."""

    @property
    def broker_id(self) -> int: ...

    @property
    def inter_broker_listener(self) -> str: ...

    @property
    def internal_topics(self) -> Mapping[str, NewTopic]:
        """The request with which an internal topic is created when it is first needed."""

    def transfer(self, request: ControlRequest, on_response: OnResponse) -> None:
        """The elected controller's request to its own broker, without a wire; answered when it is applied."""


class Elected(Protocol):
    """What the host tells the elected part."""

    @property
    def is_elected(self) -> bool: ...

    def registered(self, broker: Broker, now_ms: int) -> None:
        """The broker has a (new) registration: be a candidate, watch."""

    def store_event(self, event: Event, now_ms: int) -> None: ...

    def configs_changed(self, topics: Configs, brokers: Configs) -> None:
        """Some broker has written these configurations, of topics and of brokers by name."""

    def handle_request(self, peer: ProcessKey, request: AdminRequest, now_ms: int) -> None:
        """A request that the host does not answer by itself; it is answered by AdminReply."""

    def handle(self, peer: ProcessKey, message: ControllerMessage, now_ms: int) -> bool:
        """A message of another local process that the host does not know; False if nobody does."""

    def begin_controlled_shutdown(self, tries: int, pause_ms: int, done: Callable[[], None]) -> None:
        """The broker is about to stop: let others lead in its place, then call `done`."""

    def tick(self, now_ms: int) -> None: ...

    @property
    def next_deadline_ms(self) -> int | None: ...

    def end(self) -> None: ...
