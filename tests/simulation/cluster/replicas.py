"""What holds of the replicas of all partitions, looked at whenever somebody publishes, is told, or writes a state.

A record that a leader shows to consumers is committed: it is in the log of every in-sync replica, byte for byte, and
stays in each log that shows so much. The one exception is a broker that has lost its power, until it has left the ISR.
"""

import os
from collections.abc import Sequence

from kafkad.adapters.shared_memory.partition_table import SLOTS
from kafkad.core.controller.store import nodes
from kafkad.core.log.records.batch import read_header
from kafkad.core.partition_slot import STATE_ONLINE, PartitionSlot
from kafkad.processes.worker.shell import WorkerProcess
from tests.simulation.broker import Broker
from tests.simulation.cluster.ensemble import Ensemble
from tests.simulation.cluster.ports import ClusterPorts
from tests.simulation.requests import Partition
from tests.simulation.scheduler import Violated
from tests.simulation.truth import Truth, whole_batches


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
        self.powerless: set[tuple[int, Partition]] = set()
        """Whose log may lack what it had, while the ISR still names it."""

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

    def state(self, partition: Partition) -> nodes.StateNode | None:
        node = self._ensemble.read(nodes.state_path(*partition))
        return None if node is None else nodes.decode_state(node.data)

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
        partition = self._owned(broker).get(slot)
        if value.state != STATE_ONLINE or partition not in self._committed or partition is None:
            return
        if not 0 <= value.log_start <= value.hw_offset <= value.leo_offset:
            raise Violated(f"{broker.name}{partition}: start, watermark and end are out of order: {value}")
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

    def _owned(self, broker: Broker) -> dict[int, Partition]:
        """Partitions of its worker by slot."""
        processes = [incarnation.process for incarnation in broker.incarnations.values()]
        return {
            slot: (owned.name.topic, owned.name.partition)
            for process in processes
            if isinstance(process, WorkerProcess)
            for slot, owned in process.partitions.by_slot.items()
        }

    def acknowledged(self, partition: Partition, end: int) -> None:
        """A producer with acks=all was told so just now."""
        for broker in self._brokers.values():
            # Who publishes may be held up right after the others can see it.
            for slot, owned in self._owned(broker).items():
                if owned == partition:
                    self._look(broker, slot)
        committed = self._committed[partition]
        last = max((last for _, last, _ in whole_batches(committed)), default=-1)
        if last + 1 < end:
            raise Violated(f"{partition}: acknowledged up to {end}, committed up to {last + 1}")
        self.check_isr(partition)

    def state_changed(self) -> None:
        for partition in self._partitions:
            state = self.state(partition)
            if state is None:
                continue
            if state != self._states.get(partition):
                self._states[partition] = state
                where = f"{state.leader} leads in epoch {state.leader_epoch}, in sync are {state.isr}"
                self._ports.scheduler.note("ensemble", f"{partition[0]}-{partition[1]}: {where}")
            for broker_id in self._brokers:
                if broker_id not in state.isr:
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
        self._epochs[partition] = state.leader_epoch, state.leader

    def check_isr(self, partition: Partition) -> None:
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
            others = [each for each in (state.isr if state is not None else ()) if each != broker_id]
            if not others:
                return False
        return True

    def loses_power(self, broker_id: int) -> None:
        for partition in self._partitions:
            state = self.state(partition)
            if state is not None and broker_id in state.isr:
                self.powerless.add((broker_id, partition))

    # The last look.

    def are_equal(self) -> bool:
        return all(
            len({self.content(broker, partition) for broker in self._brokers.values()}) == 1
            for partition in self._partitions
        )

    def are_in_sync(self) -> bool:
        states = [self.state(partition) for partition in self._partitions]
        return all(state is not None and set(state.isr) == set(self._brokers) for state in states)

    def audit(self) -> None:
        """Batch by batch, and against all that was ever said."""
        for partition in self._partitions:
            contents = {broker.name: self.content(broker, partition) for broker in self._brokers.values()}
            if len(set(contents.values())) != 1:
                sizes = {name: len(each) for name, each in contents.items()}
                raise Violated(f"{partition}: the replicas differ at the end: {sizes}")
            whole = next(iter(contents.values()))
            end = self._truth.of(partition).read(whole, 0, 1 << 62)
            if end < self._truth.of(partition).acknowledged_end:
                raise Violated(f"{partition}: it ends at {end}, acknowledged was more")


def _described(content: bytes) -> str:
    """The last batches: offsets and epochs."""
    epochs = ((base, last, read_header(memoryview(batch), 0)) for base, last, batch in whole_batches(content))
    rows = [f"{base}-{last} of epoch {header.partition_leader_epoch}" for base, last, header in epochs]
    return ", ".join(rows[-5:]) or "nothing"
