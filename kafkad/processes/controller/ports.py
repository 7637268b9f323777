"""The interfaces between the elected controller and the host of one broker.

Every broker has both; the elected controller is active only while this broker is elected.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.config import BrokerConfig
from kafkad.core.cluster.request_parts import ControlRequest, ControlResponse
from kafkad.core.controller.image import Broker, MetadataImage
from kafkad.core.controller.topics.topics import NewTopic
from kafkad.core.coordination_store import Event
from kafkad.processes.controller.tree_reader import Configs
from kafkad.wire.processes.controller_messages import AdminRequest, ControllerMessage

Send = Callable[[ProcessKey, bytes], bool]
OnResponse = Callable[[ControlResponse], None]


class Host(Protocol):
    """The broker, for the elected controller."""

    @property
    def image(self) -> MetadataImage:
        """Its `controller_id` is the sender of the latest UpdateMetadata: the destination of AlterPartition."""

    @property
    def controller_epoch(self) -> int:
        """The epoch of the controller of the latest request."""

    @property
    def config(self) -> BrokerConfig:
        """The present configuration, after reloads and with the stored changes."""

    @property
    def broker_id(self) -> int: ...

    @property
    def inter_broker_listener(self) -> str: ...

    @property
    def internal_topics(self) -> Mapping[str, NewTopic]:
        """The configuration of internal topics, which are created when first required."""

    def when_applied(self, peer: ProcessKey, then: Callable[[], object]) -> None:
        """Call `then` when all local processes have applied the present metadata, for a request of `peer`."""

    def transfer(self, request: ControlRequest, on_response: OnResponse) -> None:
        """A request of the elected controller to its own broker; `on_response` is called when it is applied."""


class Elected(Protocol):
    """The elected controller, for the host."""

    @property
    def is_elected(self) -> bool: ...

    def registered(self, broker: Broker, now_ms: int) -> None:
        """The broker has registered: become a candidate, and watch."""

    def store_event(self, event: Event, now_ms: int) -> None: ...

    def configs_changed(self, topics: Configs, brokers: Configs) -> None:
        """Configurations of topics and brokers, by name, were changed."""

    def peer_ended(self, peer: ProcessKey) -> None:
        """The incarnation of this process has exited: it gets no more replies."""

    def reload(self, static: Mapping[str, str]) -> None:
        """The configuration file was read again."""

    def handle_request(self, peer: ProcessKey, request: AdminRequest, now_ms: int) -> None:
        """Handle a request for the controller; the response is an AdminReply."""

    def handle(self, peer: ProcessKey, message: ControllerMessage, now_ms: int) -> bool:
        """Handle another message of a local process; False if it is unknown."""

    def begin_controlled_shutdown(self, tries: int, pause_ms: int, done: Callable[[], None]) -> None:
        """The broker will stop: move its leaders to other brokers, then call `done`."""

    def tick(self, now_ms: int) -> None: ...

    @property
    def next_deadline_ms(self) -> int | None: ...

    def end(self) -> None: ...
