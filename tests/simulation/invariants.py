"""What has to be true whenever somebody could look: of every slot that is published, of everybody at rest."""

import os

from kafkad.adapters.shared_memory.partition_table import SLOTS
from kafkad.core.partition_slot import STATE_ONLINE, PartitionSlot
from kafkad.core.types import TopicPartition
from kafkad.processes.network.loop import NetworkProcess
from kafkad.processes.worker.loop import WorkerProcess
from tests.simulation.broker import Broker
from tests.simulation.requests import Partition
from tests.simulation.scheduler import Violated
from tests.simulation.truth import Truth

CONTROLLERS_SLOT = SLOTS - 1


class Invariants:
    """Looks at a broker from outside, and remembers what was published."""

    def __init__(self, broker: Broker, truth: Truth) -> None:
        self._truth = truth
        self._broker = broker
        self._watermarks: dict[bytes, dict[int, int]] = {}

    def forget(self) -> None:
        """The broker was started anew: recovery may publish less than was readable, for a moment."""
        self._watermarks.clear()

    # Of a slot.

    def published(self, slot: int) -> None:
        resources = self._broker.resources
        if resources is None or slot == CONTROLLERS_SLOT:
            return
        value = resources.shared.table.read(slot)
        if value.state != STATE_ONLINE:
            return
        if not 0 <= value.log_start <= value.hw_offset <= value.leo_offset:
            raise Violated(f"slot {slot}: start, watermark and end are out of order: {value}")
        known = self._watermarks.setdefault(value.topic_id, {})
        if value.hw_offset < known.get(value.partition, 0):
            raise Violated(f"slot {slot}: the high watermark went from {known[value.partition]} to {value.hw_offset}")
        known[value.partition] = value.hw_offset
        for worker in self._workers():
            owned = worker.partitions.by_slot.get(slot)
            if owned is not None and owned.topic_id == value.topic_id:
                self._is_in_the_log(owned.name, value)
                self._truth.of((owned.name.topic, owned.name.partition)).starts_at(
                    value.log_start, self._broker.ports.scheduler.wall_ms
                )

    def _is_in_the_log(self, name: TopicPartition, value: PartitionSlot) -> None:
        directory = self._broker.config.log_dirs.log_dirs[value.log_dir]
        size = os.stat(f"{directory}/{name}/{value.hw_segment:020d}.log").st_size
        if size < value.hw_position:
            raise Violated(f"{name}: readable up to byte {value.hw_position}, the file has {size}")

    def acknowledged(self, partition: Partition, end: int) -> None:
        """Somebody was told so just now: everybody must be able to read it."""
        resources = self._broker.resources
        for worker in self._workers():
            for slot, owned in worker.partitions.by_slot.items():
                if (owned.name.topic, owned.name.partition) == partition and resources is not None:
                    value = resources.shared.table.read(slot)
                    if value.state == STATE_ONLINE and value.hw_offset < end:
                        raise Violated(f"{owned.name}: acknowledged up to {end}, readable up to {value.hw_offset}")

    def _workers(self) -> list[WorkerProcess]:
        processes = [incarnation.process for incarnation in self._broker.incarnations.values()]
        return [process for process in processes if isinstance(process, WorkerProcess)]

    def _networks(self) -> list[NetworkProcess]:
        processes = [incarnation.process for incarnation in self._broker.incarnations.values()]
        return [process for process in processes if isinstance(process, NetworkProcess)]

    # At rest.

    def nothing_is_under_way(self) -> None:
        """All sleep, and will for a while: nobody holds anything of a request that has been answered."""
        for worker in self._workers():
            if worker.appender.has_waiting:
                raise Violated("a produce waits in a worker, and there is nobody it could wait for")
        for network in self._networks():
            if len(network.request_handlers.produce):
                raise Violated(
                    f"{len(network.request_handlers.produce)} produce requests are not answered, and all sleep"
                )
            if network.clients.reader.used_bytes and not network.clients.reader.unfinished:
                raise Violated(f"{network.clients.reader.used_bytes} bytes of an arena are lent to nobody")

    def nobody_is_left(self) -> None:
        """Every client has gone."""
        self.nothing_is_under_way()
        for network in self._networks():
            fetch = network.request_handlers.fetch
            if len(network.clients):
                raise Violated(f"{len(network.clients)} connections are left of clients that have gone")
            if len(fetch):
                raise Violated(f"{len(fetch)} fetches wait for clients that have gone")
            sessions = set(fetch._cache)
            for slot, interested in fetch.watches.interested.items():
                if not sessions.issuperset(interested):
                    raise Violated(f"slot {slot} is looked at by a session that is gone")
