"""A broker in pieces: real network and worker processes as objects of one process, turned pass by pass.

Sockets, shared memory, rings, links, files and logs are the real ones; only the controller is played, and a death
is an object that is not turned any more. So a test decides which process sees what first.
"""

import os
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

import zmq

from bench.brokers.processes import WITHIN_S
from kafkad.adapters.links.messaging import LinkSet, PeerGone
from kafkad.adapters.links.supervision_channel import Channel, Message, ProcessesChanged, Stop, channel_pair
from kafkad.adapters.shared_memory.arena import Arena
from kafkad.adapters.shared_memory.process_registry import ProcessKey, ProcessState
from kafkad.adapters.shared_memory.shared_region import SharedRegion
from kafkad.config import load
from kafkad.config.entities.broker import ClusterConfig
from kafkad.core.cluster.protocol_versions import protocol_versions
from kafkad.core.controller.deltas import Change, MetadataDelta, TopicCreated, TopicDeleted, apply, encode
from kafkad.core.controller.image import Broker, Listener, MetadataImage, Partition, Topic
from kafkad.core.partition_slot import PartitionSlot
from kafkad.plugin_loading import load as load_plugins
from kafkad.processes.controller.metadata_publisher import MetadataPublisher
from kafkad.processes.fetcher.shell import FetcherProcess
from kafkad.processes.network.shell import NetworkProcess
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.supervisor.resources import take_resources
from kafkad.processes.worker.shell import WorkerProcess
from kafkad.wire.processes.controller_messages import (
    ControllerMessage,
    ProducerIdsGiven,
    ProducerIdsWanted,
    SnapshotWanted,
    pack_delta,
    pack_message,
    unpack_message,
)
from tests.forked_plugins import forked
from tests.tools.raw_requests import Received

CONTROLLER, NETWORK, WORKER = ProcessKey("controller", 0), ProcessKey("network", 0), ProcessKey("worker", 0)
FETCHER = ProcessKey("fetcher", 0)
Process = NetworkProcess | WorkerProcess | FetcherProcess
TOPIC = "t"
PRODUCER_IDS = 1000
"""Of a block."""
PLAYED_CLUSTER = ClusterConfig(
    zookeeper_connect="played",
    zookeeper_session_timeout_ms=1000,
    zookeeper_max_in_flight_requests=500,
    zookeeper_connection_timeout_ms=1000,
    zookeeper_tls=None,
    zookeeper_set_acl=False,
    inter_broker_listener="PLAINTEXT",
    control_plane_listener="PLAINTEXT",
    reserved_broker_max_id=1000,
    versions=protocol_versions("3.9-IV0"),
    suspect_refused_ms=0,
)


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


def _close_network(process: NetworkProcess) -> None:
    """What the kernel takes from a process that dies: sockets, threads and files."""
    process.acceptor.close()
    process.clients.close_all()
    process._assembly.close()
    process.logs._files.close_all()


def _close_worker(process: WorkerProcess) -> None:
    """The same; nobody hears how the syncs under way end. One that was told to stop has let go of some itself."""
    upkeep = process.upkeep
    if not upkeep._is_closed:
        upkeep._threads.close(cancel=True)
        upkeep._remover.close(cancel=True)
        for _, _, effect in upkeep._syncing.values():
            effect.release()
        os.close(upkeep.doorbell)
        process.moves._threads.close(cancel=True)
        process.moves._left._removals.close()
        process.moves._left._threads.close(cancel=True)
        os.close(process.moves.doorbell)
    process.partitions.close()
    process.loader._files.close_all()


class Pieces:
    """One worker and one network process, topic "t" unless told otherwise."""

    def __init__(
        self, folder: Path, overrides: Mapping[str, str] | None = None, *, partitions: int = 2, in_cluster: bool = False
    ) -> None:
        # Sockets have short names, and pytest's directories long ones.
        self._sockets = tempfile.TemporaryDirectory()
        settings = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(folder / "data"),
            "kafkad.runtime.dir": self._sockets.name,
            "kafkad.metrics.listener": "",
            "kafkad.arena.bytes": str(1 << 20),
            "socket.request.max.bytes": str(1 << 20),
            "num.network.threads": "1",
            "num.io.threads": "1",
            **(overrides or {}),
        }
        self.config = load(None, list(settings.items()))
        if in_cluster:
            # Its controller is played, so nobody connects there.
            self.config = replace(self.config, cluster=PLAYED_CLUSTER)
        self._plugins = load_plugins(enabled=False)
        self._resources = take_resources(self.config)
        self._arena_region = SharedRegion("arena-of-pieces", self._resources.shared.arenas[0].size)
        self.shared = replace(self._resources.shared, arenas=(Arena(self._arena_region),))
        self.port = self._resources.endpoints[0].port
        self.registry, self.table = self.shared.registry, self.shared.table
        self.image = self._first_image()
        self.heard: list[ControllerMessage] = []
        self._producer_ids = 0
        self.clients: list[Client] = []
        self.said: list[Message] = []
        self._alive: dict[ProcessKey, tuple[Process, Channel]] = {}
        for key in self.registry.keys:
            self.registry.begin_incarnation(key)
        self._zmq: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.registry.set_state(CONTROLLER, ProcessState.READY)
        self._links = LinkSet(self._zmq, self._resources.runtime_dir, CONTROLLER, 1)
        self._metadata_publisher = MetadataPublisher(self.registry, self._links_send)
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
        process = self._alive[NETWORK][0]
        assert isinstance(process, NetworkProcess)
        return process

    @property
    def worker(self) -> WorkerProcess:
        process = self._alive[WORKER][0]
        assert isinstance(process, WorkerProcess)
        return process

    @property
    def arena(self) -> Arena:
        return self.shared.arenas[0]

    def begin(self, key: ProcessKey) -> None:
        """An incarnation of `key`, of which everybody is told."""
        if key == NETWORK:
            # What a forked process has of its own: the bookkeeping of the arena, and its copies of the listeners.
            self.shared = replace(self.shared, arenas=(Arena(self._arena_region),))
        ours, theirs = channel_pair()
        self.registry.set_state(key, ProcessState.STARTING)
        context = ChildContext(
            key=key,
            incarnation=self.registry.incarnation(key),
            supervisor_pid=0,
            shared=self.shared,
            config=self.config,
            plugins=forked(self._plugins),
            runtime_dir=self._resources.runtime_dir,
            channel=theirs,
            listeners=[(listener, sock.dup()) for listener, sock in self._resources.listeners if key == NETWORK],
            endpoints=self._resources.endpoints,
            log_directories=self._resources.log_directories,
            was_clean=self._resources.was_clean,
        )
        mains: Mapping[str, Callable[[ChildContext], Process]]
        mains = {"network": NetworkProcess, "worker": WorkerProcess, "fetcher": FetcherProcess}
        process = mains[key.role](context)
        self._alive[key] = (process, ours)
        self.tell_roster()

    def kill(self, key: ProcessKey) -> None:
        """SIGKILL, reaped; nobody has heard of it yet."""
        process, channel = self._alive.pop(key)
        # First: whatever fails later, a link that is open would hold up the end of the test run.
        process.peers.close()
        if isinstance(process, NetworkProcess):
            _close_network(process)
        elif isinstance(process, FetcherProcess):
            process.connections.close()
        else:
            _close_worker(process)
        process.loop.close()
        process._context.channel.close()
        channel.close()
        self.registry.begin_incarnation(key)
        self.registry.set_state(key, ProcessState.DEAD)

    def tell_roster(self) -> None:
        for change in self._links.update(self.registry.entries()):
            if isinstance(change, PeerGone):
                self._metadata_publisher.unlinked(change.peer)
            else:
                self._metadata_publisher.linked(change.peer, self.image)
        for peer in self.registry.keys:
            self.registry.mark_seen(CONTROLLER, peer, self.registry.incarnation(peer))
        for _, channel in self._alive.values():
            channel.send(ProcessesChanged())

    def stop(self, key: ProcessKey, deadline_ms: int) -> None:
        self._alive[key][1].send(Stop(deadline_ms))

    def heard_from(self, key: ProcessKey) -> list[Message]:
        """What it has told the supervisor since the last turn."""
        return self._alive[key][1].receive()

    # Turning.

    def turn(self, *keys: ProcessKey) -> None:
        """One pass of these processes; all of them unless named, and the controller and the clients as well."""
        for key in keys or tuple(self._alive):
            process = self._alive[key][0]
            process.turn(0)
            # As every process does before it waits: what is due is known from then on.
            process._timeout_ms()
            if not keys:
                self.said += self._alive[key][1].receive()
        if not keys:
            self._play_controller()
            for client in self.clients:
                client.pump()

    def run(self, condition: Callable[[], object], what: str) -> None:
        """Turn until `condition` holds; fails, naming `what`."""
        deadline = time.monotonic() + WITHIN_S
        while not condition():
            assert time.monotonic() < deadline, f"not within {WITHIN_S} s: {what}"
            self.turn()

    def run_until_online(self, name: str = TOPIC) -> None:
        """The worker of now serves them, whatever a worker before has published."""
        by_slot = self.worker.partitions.by_slot
        slots = [row.slot for row in self.image.topics[name].partitions]
        self.run(lambda: all(slot in by_slot and by_slot[slot].is_online for slot in slots), f"{name} is online")
        self.turn()

    def run_until_known(self, *keys: ProcessKey) -> None:
        """Both processes have the newest metadata; named ones get it while the others stand still."""
        deadline = time.monotonic() + WITHIN_S
        while not all(self._version(key) == self.image.version for key in keys or (NETWORK, WORKER)):
            assert time.monotonic() < deadline, "the metadata has not arrived"
            self.turn(*keys)
            self._play_controller()

    def _version(self, key: ProcessKey) -> int:
        return self.network.copy.image.version if key == NETWORK else self.worker.partitions.image.version

    def settle(self) -> None:
        """Until every process has looked, several times, and had nothing to do."""
        for _ in range(20):
            self.turn()

    def _play_controller(self) -> None:
        for peer, link in self._links.items():
            link.flush()
            for frame in link.receive():
                message = unpack_message(frame)
                self.heard.append(message)
                if isinstance(message, SnapshotWanted):
                    self._metadata_publisher.asked(peer, message.have_version, self.image)
                elif isinstance(message, ProducerIdsWanted):
                    self._producer_ids += PRODUCER_IDS
                    self._links_send(peer, pack_message(ProducerIdsGiven(self._producer_ids, PRODUCER_IDS)))

    def _links_send(self, peer: ProcessKey, frame: bytes) -> None:
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
            self._links_send(peer, pack_delta(encode(delta)))

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
        return self.network.clients.reader.lent_bytes == 0

    def close(self) -> None:
        for client in self.clients:
            client.close()
        for key in list(self._alive):
            self.kill(key)
        self._links.close()
        self._zmq.term()
        self._arena_region.close()
        self._resources.close()
        self._sockets.cleanup()
