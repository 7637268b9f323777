"""What holds of the replicas of all partitions, looked at whenever somebody publishes, is told, or writes a state.

A record that a leader shows to consumers is committed: it is in the log of every in-sync replica, byte for byte, and
stays in each log that shows so much. The one exception is a broker that has lost its power, until it has left the ISR.
"""

import os
import re
from collections.abc import Mapping, Sequence
from uuid import UUID

from kafkad.adapters.shared_memory.partition_table import SLOTS
from kafkad.core.controller.store import nodes
from kafkad.core.log.records.batch import read_header
from kafkad.core.partition_slot import STATE_ONLINE, PartitionSlot
from kafkad.processes.worker.loop import WorkerProcess
from kafkad.processes.worker.owned import OwnedPartition
from tests.simulation.broker import Broker
from tests.simulation.cluster.admin_requests import PartitionMetadata
from tests.simulation.cluster.ensemble import Ensemble
from tests.simulation.cluster.ports import ClusterPorts
from tests.simulation.requests import Partition
from tests.simulation.scheduler import Violated
from tests.simulation.truth import Truth, whole_batches

_FOLDER = re.compile(r"[^.]+-\d+")
"""Of a partition that nobody has set aside."""


class Replicas:
    """The files of all brokers, against what was called committed."""

    def __init__(
        self, ports: ClusterPorts, brokers: Sequence[Broker], partitions: Sequence[Partition], truth: Truth
    ) -> None:
        self._ports = ports
        self._ensemble: Ensemble = ports.ensemble
        self._brokers = {broker.config.node_id: broker for broker in brokers}
        self._partitions = list(partitions)
        self._truth = truth
        self._committed = dict.fromkeys(partitions, b"")
        """All that was shown to consumers, from the first offset on."""
        self._epochs: dict[Partition, tuple[int, int]] = {}
        self._states: dict[Partition, nodes.StateNode] = {}
        self._watermarks: dict[OwnedPartition, int] = {}
        """As the owner of each has published it."""
        self._ids = dict.fromkeys((topic for topic, _ in partitions), "")
        """Of the topics of these names that are there now."""
        self._deleted: set[str] = set()
        self._topics: dict[str, nodes.TopicNode] = {}
        """As they were when they were last looked at."""
        self.powerless: set[tuple[int, Partition]] = set()
        """Whose log may lack what it had, while the ISR still names it or it is off."""

    # The logs as they are.

    def content(self, broker: Broker, partition: Partition, end: tuple[int, int] | None = None) -> bytes:
        """Of all segments; or up to `end`, the base offset of a segment and a position in it."""
        topic, number = partition
        folder = f"{broker.config.log_dirs.log_dirs[0]}/{topic}-{number}"
        names = sorted(name for name in os.listdir(folder) if name.endswith(".log")) if os.path.isdir(folder) else []
        pieces = []
        for name in names:
            base = int(name.removesuffix(".log"))
            if end is not None and base > end[0]:
                break
            with open(f"{folder}/{name}", "rb") as file:
                pieces.append(file.read(end[1] if end is not None and base == end[0] else -1))
        return b"".join(pieces)

    def assignments(self, topic: str) -> dict[Partition, tuple[int, ...]]:
        node = self._ensemble.read(nodes.topic_path(topic))
        rows = nodes.decode_topic(node.data).partitions if node is not None else {}
        return {(topic, int(number)): replicas for number, replicas in rows.items()}

    def state(self, partition: Partition) -> nodes.StateNode | None:
        node = self._ensemble.read(nodes.state_path(*partition))
        return None if node is None else nodes.decode_state(node.data)

    def leads(self, broker: Broker, partition: Partition) -> bool:
        """It does, and has heard of it."""
        state = self.state(partition)
        if state is None or state.leader != broker.config.node_id:
            return False
        found = [each for each in self._owned(broker).values() if (each.name.topic, each.name.partition) == partition]
        return any(each.leads and each.leader_epoch == state.leader_epoch for each in found)

    # What must hold.

    def published(self, slot: int) -> None:
        """By the broker that acts."""
        self._look(self._ports.broker, slot)

    def _look(self, broker: Broker, slot: int) -> None:
        resources = broker.resources
        if resources is None or slot == SLOTS - 1:
            return
        with self._ports.scheduler.unnoticed():
            value = resources.shared.table.read(slot)
        owned = self._owned(broker).get(slot)
        if owned is None or value.state != STATE_ONLINE:
            return
        partition = owned.name.topic, owned.name.partition
        if partition not in self._committed or nodes.encode_id(UUID(bytes=owned.topic_id)) != self._ids[partition[0]]:
            # Somebody else's, or of a topic that is about to go.
            return
        if not 0 <= value.log_start <= value.hw_offset <= value.leo_offset:
            raise Violated(f"{broker.name}{partition}: start, watermark and end are out of order: {value}")
        before = self._watermarks.get(owned, 0)
        if value.hw_offset < before:
            raise Violated(f"{broker.name}{partition}: the high watermark went from {before} to {value.hw_offset}")
        self._watermarks[owned] = value.hw_offset
        self._shown(broker, partition, value)

    def _shown(self, broker: Broker, partition: Partition, value: PartitionSlot) -> None:
        committed = self._committed[partition]
        shown = self.content(broker, partition, (value.hw_segment, value.hw_position))
        length = min(len(shown), len(committed))
        if shown[:length] != committed[:length]:
            at = next(at for at in range(length) if shown[at] != committed[at])
            raise Violated(f"{broker.name}{partition}: what it shows differs from what was committed at byte {at}")
        if len(shown) > len(committed):
            self._committed[partition] = shown
            self.check_isr(partition)

    def _owned(self, broker: Broker) -> Mapping[int, OwnedPartition]:
        """What its worker has, by slot."""
        for incarnation in broker.incarnations.values():
            if isinstance(incarnation.process, WorkerProcess):
                return incarnation.process.partitions.by_slot
        return {}

    def acknowledged(self, partition: Partition, end: int) -> None:
        """A producer with acks=all was told so just now."""
        for broker in self._brokers.values():
            # Who publishes may be held up right after the others can see it.
            for slot, owned in list(self._owned(broker).items()):
                if (owned.name.topic, owned.name.partition) == partition:
                    self._look(broker, slot)
        committed = self._committed[partition]
        last = max((last for _, last, _ in whole_batches(committed)), default=-1)
        if last + 1 < end:
            raise Violated(f"{partition}: acknowledged up to {end}, committed up to {last + 1}")
        self.check_isr(partition)

    def state_changed(self) -> None:
        for topic in self._ids:
            self._look_at_topic(topic)
        for partition in self._partitions:
            state = self.state(partition)
            if state is None:
                continue
            if state != self._states.get(partition):
                self._states[partition] = state
                where = f"{state.leader} leads in epoch {state.leader_epoch}, in sync are {state.isr}"
                self._ports.scheduler.note("ensemble", f"{partition[0]}-{partition[1]}: {where}")
            for broker_id, broker in self._brokers.items():
                # A fetch of before, read late, may bring it into the ISR once more while it has no power (as in Kafka).
                if broker_id not in state.isr and broker.is_running:
                    self.powerless.discard((broker_id, partition))
            self._check_epoch(partition, state)
            self.check_isr(partition)

    def _check_epoch(self, partition: Partition, state: nodes.StateNode) -> None:
        known_epoch, known_leader = self._epochs.get(partition, (-1, -1))
        if state.leader_epoch < known_epoch:
            raise Violated(f"{partition}: the leader epoch went from {known_epoch} to {state.leader_epoch}")
        if state.leader_epoch == known_epoch and state.leader != known_leader:
            raise Violated(f"{partition}: {known_leader} and {state.leader} lead in epoch {known_epoch}")
        if state.leader >= 0 and state.leader not in state.isr:
            raise Violated(f"{partition}: {state.leader} leads, and is not in sync: {state.isr}")
        replicas = self.assignments(partition[0])[partition]
        if not set(replicas).issuperset(state.isr):
            raise Violated(f"{partition}: in sync are {state.isr}, its replicas are {replicas}")
        self._epochs[partition] = state.leader_epoch, state.leader

    def _look_at_topic(self, topic: str) -> None:
        """One that is made again has nothing of the one before, which never comes back."""
        node = self._ensemble.read(nodes.topic_path(topic))
        found = nodes.decode_topic(node.data) if node is not None else None
        topic_id = (found.topic_id or "") if found is not None else ""
        before = self._ids[topic]
        if before and topic_id != before:
            self._check_deleted(topic, before)
        if found is not None:
            self._check_moved(topic, self._topics.get(topic, found), found)
            self._topics[topic] = found
        if topic_id == before:
            return
        if topic_id in self._deleted:
            raise Violated(f"{topic} {topic_id} was deleted, and is there again")
        self._ids[topic] = topic_id
        if not before:
            return
        self._deleted.add(before)
        self.powerless = {row for row in self.powerless if row[1][0] != topic}
        for partition in self._partitions:
            if partition[0] == topic:
                self._committed[partition] = b""
                self._epochs.pop(partition, None)
                self._states.pop(partition, None)

    def _check_moved(self, topic: str, before: nodes.TopicNode, after: nodes.TopicNode) -> None:
        """Whoever is no replica of before is being added, or in sync: also when nobody has said that it is added."""
        for number, replicas in after.partitions.items():
            settled = set(before.partitions.get(number, replicas)).difference(before.adding_replicas.get(number, ()))
            done = set(replicas).difference(after.adding_replicas.get(number, ())).difference(settled)
            state = self.state((topic, int(number)))
            isr = state.isr if state is not None else ()
            if not done.issubset(isr):
                what = f"the reassignment has ended, {sorted(done)} were added, in sync are {isr}"
                raise Violated(f"{topic}-{number}: {what}")

    def _check_deleted(self, topic: str, topic_id: str) -> None:
        """Its name is free when nobody has anything of it."""
        node = self._topics.pop(topic, None)
        for number, replicas in node.partitions.items() if node is not None else ():
            for broker_id in replicas:
                broker = self._brokers[broker_id]
                if os.path.isdir(f"{broker.config.log_dirs.log_dirs[0]}/{topic}-{number}"):
                    raise Violated(f"{topic} {topic_id} is deleted, broker {broker_id} still has {topic}-{number}")

    def is_relieved(self, broker_id: int) -> bool:
        """It may stop: where there is another, it leads nothing, and nobody waits for it."""
        for partition, replicas in self.all_assignments().items():
            state = self.state(partition)
            if state is None or len(replicas) < 2 or self._ensemble.read(nodes.deletion_path(partition[0])) is not None:
                continue
            if state.leader == broker_id or (broker_id in state.isr and len(state.isr) > 1):
                return False
        return True

    def check_isr(self, partition: Partition) -> None:
        """But for the powerless: with acks=all Apache Kafka, too, has only the memory of the in-sync replicas, and a
        broker without power is one of them until its session ends, if a fetch of before is read late even for the
        first time. KIP-966 takes such a broker out of the ISR when it registers (KRaft only, as is KIP-841); here the
        controller does so, and if all others of the ISR fail before, what was committed is lost, in either.
        """
        if self._ensemble.read(nodes.deletion_path(partition[0])) is not None:
            # Brokers remove it before its nodes go.
            return
        state = self.state(partition)
        for broker_id in state.isr if state is not None else ():
            if (broker_id, partition) in self.powerless:
                continue
            has = self.content(self._brokers[broker_id], partition)
            if not has.startswith(self._committed[partition]):
                what = f"it has {_described(has)}, committed is {_described(self._committed[partition])}"
                raise Violated(f"{partition}: broker {broker_id} is in sync, and lacks what was committed: {what}")

    # Whether power may fail.

    def may_lose_power(self, broker_id: int) -> bool:
        """Others in sync have its records, and stay registered: as in Apache Kafka the ISR may name one that has lost
        some until the controller sees that it was away.
        """
        if self.powerless or self._ensemble.away or not all(each.is_running for each in self._brokers.values()):
            return False
        for partition in self._partitions:
            state = self.state(partition)
            if state is not None and set(state.isr) <= {broker_id}:
                return False
        return True

    def loses_power(self, broker_id: int) -> None:
        for partition in self._partitions:
            state = self.state(partition)
            if state is not None:
                self.powerless.add((broker_id, partition))

    # The last look.

    def all_assignments(self) -> dict[Partition, tuple[int, ...]]:
        """Of every topic, also of the broker's own."""
        topics = self._ensemble.children(nodes.TOPICS)
        return {row: replicas for topic in topics for row, replicas in self.assignments(topic).items()}

    def metadata(self) -> dict[Partition, PartitionMetadata]:
        """What every broker should know in the end."""
        found = {}
        for partition, replicas in self.all_assignments().items():
            state = self.state(partition)
            assert state is not None, "a partition has a state in the end"
            found[partition] = PartitionMetadata(state.leader, replicas, frozenset(state.isr))
        return found

    def are_moved(self) -> bool:
        """No reassignment and no deletion is under way."""
        topics = [self._ensemble.read(nodes.topic_path(topic)) for topic in self._ensemble.children(nodes.TOPICS)]
        rows = [nodes.decode_topic(node.data) for node in topics if node is not None]
        moving = any(row.adding_replicas or row.removing_replicas for row in rows)
        return not moving and not self._ensemble.children(nodes.DELETIONS)

    def are_in_sync(self) -> bool:
        rows = [(replicas, self.state(partition)) for partition, replicas in self.all_assignments().items()]
        return all(state is not None and set(state.isr) == set(replicas) for replicas, state in rows)

    def are_equal(self) -> bool:
        for partition, replicas in self.all_assignments().items():
            if len({self.content(self._brokers[broker_id], partition) for broker_id in replicas}) != 1:
                return False
        return True

    def are_where_they_belong(self) -> bool:
        """Everybody has the directories of its replicas, and no other."""
        rows = self.all_assignments()
        for broker_id, broker in self._brokers.items():
            folders = {name for name in os.listdir(broker.config.log_dirs.log_dirs[0]) if _FOLDER.fullmatch(name)}
            if folders != {f"{topic}-{at}" for (topic, at), replicas in rows.items() if broker_id in replicas}:
                return False
        return True

    def audit(self) -> None:
        """Batch by batch, against all that was ever said."""
        for partition, replicas in self.all_assignments().items():
            contents = {broker_id: self.content(self._brokers[broker_id], partition) for broker_id in replicas}
            if len(set(contents.values())) != 1:
                sizes = {name: len(each) for name, each in contents.items()}
                raise Violated(f"{partition}: the replicas differ at the end: {sizes}")
            if partition in self._truth.known():
                end = self._truth.of(partition).read(next(iter(contents.values())), 0, 1 << 62)
                if end < self._truth.of(partition).acknowledged_end:
                    raise Violated(f"{partition}: it ends at {end}, acknowledged was more")


def _described(content: bytes) -> str:
    """The last batches: offsets and epochs."""
    epochs = ((base, last, read_header(memoryview(batch), 0)) for base, last, batch in whole_batches(content))
    rows = [f"{base}-{last} of epoch {header.partition_leader_epoch}" for base, last, header in epochs]
    return ", ".join(rows[-5:]) or "nothing"
