"""A broker in pieces: real network, worker and fetcher processes in one thread, turned pass by pass.

Sockets, shared memory, rings, links, files and logs are the real ones; only the controller is played, and a death
is a process that is not turned any more. So a test decides which process sees what first.
"""

import os
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from uuid import UUID, uuid4

import zmq

from bench.brokers.processes import WITHIN_S
from kafkad.adapters.links.messaging import LinkSet, PeerGone
from kafkad.adapters.links.supervision_channel import Message, ProcessesChanged, Stop, ToChild
from kafkad.adapters.shared_memory.arena import Arena
from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.adapters.shared_memory.partition_table import PartitionTable
from kafkad.adapters.shared_memory.process_registry import ProcessKey, ProcessState
from kafkad.config import Listener as ConfiguredListener
from kafkad.config import load
from kafkad.core.controller.deltas import Change, MetadataDelta, TopicCreated, TopicDeleted, apply, encode
from kafkad.core.controller.image import Broker, Listener, MetadataImage, Partition, Topic
from kafkad.core.partition_slot import PartitionSlot
from kafkad.plugin_loading import load as load_plugins
from kafkad.processes.controller.metadata_publisher import MetadataPublisher
from kafkad.processes.fetcher.loop import FetcherProcess
from kafkad.processes.network.loop import NetworkProcess
from kafkad.processes.worker.loop import WorkerProcess
from kafkad.wire.processes.controller_messages import (
    ControllerMessage,
    ProducerIdsGranted,
    ProducerIdsRequest,
    SnapshotRequest,
    pack_delta,
    pack_message,
    unpack_message,
)
from kafkad.wire.processes.descriptors import ControlMessage, pack_control
from tests.one_thread import Incarnation, OneThreadBroker
from tests.processes.real_ports import PORTS, OwnedSocket
from tests.tools.raw_requests import Received

CONTROLLER, NETWORK, WORKER = ProcessKey("controller", 0), ProcessKey("network", 0), ProcessKey("worker", 0)
FETCHER = ProcessKey("fetcher", 0)
TOPIC = "t"
SMALL = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "kafkad.metrics.listener": "",
    "kafkad.arena.bytes": str(1 << 20),
    "socket.request.max.bytes": str(1 << 20),
}
PRODUCER_IDS = 1000
"""Of a block."""


class Client:
    """A connection whose socket never blocks: the broker runs in this very thread."""

    def __init__(self, pieces: "Pieces", sock: socket.socket) -> None:
        self.sock = sock
        self.name = "{}:{}".format(*sock.getsockname()[:2])
        self.replies: list[tuple[int, bytes]] = []
        self.is_closed = False
        self._pieces = pieces
        self._received = Received()
        self._unsent = b""
        sock.setblocking(False)

    @property
    def is_sent(self) -> bool:
        return not self._unsent

    def send(self, data: bytes) -> None:
        self._unsent += data
        self.pump()

    def pump(self) -> None:
        try:
            while self._unsent:
                self._unsent = self._unsent[self.sock.send(self._unsent) :]
        except BlockingIOError:
            pass
        except ConnectionError:
            self._unsent = b""
        self._receive()

    def _receive(self) -> None:
        try:
            while not self.is_closed:
                data = self.sock.recv(1 << 20)
                self.is_closed = not data
                self._received.add(data)
        except BlockingIOError:
            pass
        except ConnectionError:
            self.is_closed = True
        while (reply := self._received.take()) is not None:
            self.replies.append(reply)

    def reply(self) -> bytes:
        """The body of the next reply."""
        self._pieces.run(lambda: self.replies or self.is_closed, "a reply comes")
        assert self.replies, "the broker closed the connection"
        return self.replies.pop(0)[1]

    def ask(self, request: bytes) -> bytes:
        self.send(request)
        return self.reply()

    def close(self) -> None:
        self.sock.close()


class Pieces(OneThreadBroker):
    """One worker and one network process, topic "t" unless told otherwise."""

    def __init__(self, folder: Path, overrides: Mapping[str, str] | None = None, *, partitions: int = 2) -> None:
        PORTS.install()
        # Sockets have short names, and pytest's directories long ones.
        self._sockets = tempfile.TemporaryDirectory()
        settings = {
            **SMALL,
            "log.dirs": str(folder / "data"),
            "kafkad.runtime.dir": self._sockets.name,
            "num.network.threads": "1",
            "num.io.threads": "1",
            **(overrides or {}),
        }
        super().__init__(PORTS, load(None, list(settings.items())), load_plugins(enabled=False))
        resources = self.acquire_resources()
        self.port = resources.endpoints[0].port
        self.image = self._first_image()
        self.heard: list[ControllerMessage] = []
        self._producer_ids = 0
        self.clients: list[Client] = []
        for key in self.registry.keys:
            self.registry.begin_incarnation(key)
        self._zmq: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.registry.set_state(CONTROLLER, ProcessState.READY)
        self._links = LinkSet(self._zmq, resources.runtime_dir, CONTROLLER, 1)
        self._metadata_publisher = MetadataPublisher(self.registry, self.send_frame)
        self._partitions = partitions

    def start(self) -> None:
        """Apart from making it: what could not start has to be closed all the same, or it hangs at the end."""
        self.begin(WORKER)
        self.begin(NETWORK)
        self.create_topic(TOPIC, self._partitions)
        self.run_until_online()
        self.run_until_known()

    def _first_image(self) -> MetadataImage:
        listener = Listener(name="PLAINTEXT", host="127.0.0.1", port=self.port, security_protocol="PLAINTEXT")
        broker = Broker(id=self.config.node_id, epoch=1, listeners=(listener,), rack=None)
        return MetadataImage(version=1, cluster_id="pieces", brokers={broker.id: broker})

    # Processes.

    @property
    def network(self) -> NetworkProcess:
        process = self.incarnations[NETWORK].process
        assert isinstance(process, NetworkProcess)
        return process

    @property
    def worker(self) -> WorkerProcess:
        process = self.incarnations[WORKER].process
        assert isinstance(process, WorkerProcess)
        return process

    @property
    def fetcher(self) -> FetcherProcess:
        process = self.incarnations[FETCHER].process
        assert isinstance(process, FetcherProcess)
        return process

    @property
    def table(self) -> PartitionTable:
        return self.shared.table

    @property
    def arena(self) -> Arena:
        """As the network process has it."""
        return self.incarnations[NETWORK].context.arenas[0]

    def block(self, key: ProcessKey) -> CounterBlock:
        return self.incarnations[key].context.block

    def begin(self, key: ProcessKey) -> None:
        """An incarnation of `key`, of which everybody is told."""
        self._resume(self.fork(key))
        self.tell_roster()

    def _listeners(self) -> list[tuple[ConfiguredListener, socket.socket]]:
        assert self.resources is not None, "a process that begins has a broker"
        return [(listener, OwnedSocket(fileno=os.dup(sock.fileno()))) for listener, sock in self.resources.listeners]

    def kill(self, key: ProcessKey) -> None:
        """SIGKILL, reaped; nobody has heard of it yet."""
        self.reap(self.incarnations[key])

    def replace(self, key: ProcessKey) -> None:
        """Others hear of the death when the next incarnation has begun."""
        self.kill(key)
        self.begin(key)

    def tell_roster(self) -> None:
        for peer in self.registry.keys:
            self.registry.mark_seen(CONTROLLER, peer, self.registry.incarnation(peer))
        self._tell_all(ProcessesChanged())

    def tell(self, key: ProcessKey, message: ToChild) -> None:
        self._send(self.incarnations[key], message)

    def stop(self, key: ProcessKey, deadline_ms: int) -> None:
        self.tell(key, Stop(deadline_ms))

    def heard_from(self, key: ProcessKey) -> list[Message]:
        """What it has told the supervisor since this was asked before."""
        return self.incarnations[key].channel.receive()

    # Turning.

    def hand_over(self, peer: ProcessKey, message: ControlMessage) -> None:
        """The worker gets this message from the process."""
        self.worker.handle(peer, pack_control(message))

    def turn(self, *keys: ProcessKey) -> None:
        """One pass of these processes; all of them unless named, and the controller and the clients as well."""
        for key in keys or tuple(self.incarnations):
            self._resume(self.incarnations[key])
        if not keys:
            self._play_controller()
            for client in self.clients:
                client.pump()

    def _resume(self, incarnation: Incarnation) -> None:
        """Until it waits again. What ends it by mistake ends the test."""
        strand = incarnation.strand
        if not strand.is_over:
            strand.act()
            if strand.failure is not None:
                raise strand.failure

    def enter_pass(self) -> None:
        """The network process may use what it has read before, until its next turn has ended."""
        self.registry.enter_pass(self.registry.slot(NETWORK))

    def run(self, condition: Callable[[], object], what: str, *keys: ProcessKey) -> None:
        """Turn until `condition` holds; fails, naming `what`. With `keys`, these and the controller only."""
        deadline = time.monotonic() + WITHIN_S
        while not condition():
            assert time.monotonic() < deadline, f"not within {WITHIN_S} s: {what}"
            self.turn(*keys)
            if keys:
                self._play_controller()

    def run_until_online(self, name: str = TOPIC) -> None:
        """The worker of now serves them, whatever a worker before has published, and the network process knows it."""
        by_slot = self.worker.partitions.by_slot
        slots = [row.slot for row in self.image.topics[name].partitions]
        self.run(lambda: all(slot in by_slot and by_slot[slot].is_online for slot in slots), f"{name} is online")
        if NETWORK in self.incarnations:
            self.run(lambda: self._version(NETWORK) == self.image.version, f"{name} is known")
        self.turn()

    def run_until_known(self, *keys: ProcessKey) -> None:
        """Both processes have the newest metadata; named ones get it while the others stand still."""
        wanted = keys or (NETWORK, WORKER)
        self.run(lambda: all(self._version(key) == self.image.version for key in wanted), "it is known", *keys)

    def _version(self, key: ProcessKey) -> int:
        return self.network.copy.image.version if key == NETWORK else self.worker.partitions.image.version

    def settle(self) -> None:
        """Until every process has looked, several times, and had nothing to do."""
        for _ in range(20):
            self.turn()

    def _play_controller(self) -> None:
        for change in self._links.update(self.registry.entries()):
            if isinstance(change, PeerGone):
                self._metadata_publisher.unlinked(change.peer)
            else:
                self._metadata_publisher.linked(change.peer, self.image)
        for peer, link in self._links.items():
            link.flush()
            for frame in link.receive():
                message = unpack_message(frame)
                self.heard.append(message)
                if isinstance(message, SnapshotRequest):
                    self._metadata_publisher.snapshot_requested(peer, message.have_version, self.image)
                elif isinstance(message, ProducerIdsRequest):
                    self._producer_ids += PRODUCER_IDS
                    self.send_frame(peer, pack_message(ProducerIdsGranted(self._producer_ids, PRODUCER_IDS)))

    def send_frame(self, peer: ProcessKey, frame: bytes) -> None:
        """As the controller."""
        link = self._links.link(peer)
        if link is not None:
            link.send(frame)

    # Metadata.

    def publish(self, *changes: Change, to: tuple[ProcessKey, ...] = (WORKER, NETWORK)) -> None:
        """The next version, sent to some."""
        delta = MetadataDelta(self.image.version + 1, changes)
        self.image = apply(self.image, delta)
        self.send(delta, to=to)

    def send(self, delta: MetadataDelta, *, to: tuple[ProcessKey, ...]) -> None:
        for peer in to:
            self.send_frame(peer, pack_delta(encode(delta)))

    def topic(self, name: str, partitions: int) -> Topic:
        first = 1 + max((row.slot for topic in self.image.topics.values() for row in topic.partitions), default=-1)
        rows = tuple(
            Partition(
                index=index,
                slot=first + index,
                owner=0,
                log_dir=0,
                leader=self.config.node_id,
                leader_epoch=0,
                partition_epoch=0,
                replicas=(self.config.node_id,),
                isr=(self.config.node_id,),
            )
            for index in range(partitions)
        )
        return Topic(name=name, id=uuid4(), partitions=rows, configs={})

    def create_topic(self, name: str, partitions: int = 1) -> None:
        self.publish(TopicCreated(self.topic(name, partitions)))

    def delete_topic(self, name: str, *, to: tuple[ProcessKey, ...] = (WORKER, NETWORK)) -> UUID:
        topic = self.image.topics[name]
        self.publish(TopicDeleted(name, topic.id, tuple(row.slot for row in topic.partitions)), to=to)
        return topic.id

    def slot(self, name: str = TOPIC, partition: int = 0) -> int:
        return self.image.topics[name].partitions[partition].slot

    def published(self, name: str = TOPIC, partition: int = 0) -> PartitionSlot:
        return self.table.read(self.slot(name, partition))

    # Clients.

    def connect(self) -> Client:
        """A connection that the network process has accepted."""
        sock = socket.create_connection(("127.0.0.1", self.port), WITHIN_S)
        client = Client(self, sock)
        self.clients.append(client)
        before = len(self.network.clients)
        self.run(lambda: len(self.network.clients) > before, "the connection is accepted")
        return client

    def directory(self, name: str = TOPIC, partition: int = 0) -> Path:
        return Path(self.config.log_dirs.log_dirs[0]) / f"{name}-{partition}"

    def has_empty_arena(self) -> bool:
        """Nothing is lent out, but for the window into which the next small request is read."""
        return self.network.clients.reader.used_bytes == 0

    def close(self) -> None:
        for client in self.clients:
            client.close()
        for key in list(self.incarnations):
            self.kill(key)
        self._links.close()
        self._zmq.term()
        self.release_resources()
        self._sockets.cleanup()
        PORTS.uninstall()
