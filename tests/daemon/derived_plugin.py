"""A plugin of each kind whose classes are derived from those of kafkad.api and of the built-in plugins.

Each object notes in the file `kafkad.plugin.derived.notes` that it was called, once it has treated what it was given as
any values of Python: compared, copied and changed.
"""

import copy
import dataclasses
import pickle
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from kafkad.api import (
    AssigningMember,
    Assignment,
    Between,
    BrokerId,
    BrokerInfo,
    CleanupEffect,
    CleanupPolicy,
    ClientIdentity,
    ClientQuotas,
    ElectionContext,
    FilterLimits,
    GroupAssignor,
    LeaderElectionStrategy,
    LogConfig,
    LogSummary,
    MetricsReporter,
    MetricsSnapshot,
    Page,
    QuotaKey,
    QuotaManager,
    ReplicaSelector,
    ReplicationQuotaManager,
    ReplicationSide,
    ReplicaView,
    ReporterHost,
    RewriteSegments,
    SealedSegment,
    SettingType,
    TopicConfig,
    TopicPartition,
    TransferSegments,
    Value,
    hookimpl,
    latest_of_each_key,
    old_segments,
)
from kafkad.plugins.client_quotas import ClientIdQuotas
from kafkad.plugins.compaction import Compaction
from kafkad.plugins.group_assignors import Uniform
from kafkad.plugins.leader_election import PreferredReplica
from kafkad.plugins.prometheus import Prometheus
from kafkad.plugins.replica_selectors import RackAwareReplicaSelector
from kafkad.plugins.replication_quota import ThrottledRate

NOTES = "kafkad.plugin.derived.notes"
EVEN = "kafkad.plugin.derived.even"


class Notes:
    """One line for each kind of object that was called."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._path = Path(settings[NOTES])

    def add(self, what: str, *received: object) -> None:
        for value in received:
            assert copy.copy(value) == value
            if dataclasses.is_dataclass(value) and not isinstance(value, type):
                assert dataclasses.replace(value) == value
            if isinstance(value, msgspec.Struct):
                assert pickle.loads(pickle.dumps(value)) == value
        with self._path.open("a") as file:
            file.write(f"{what}\n")


class Archived(TransferSegments):
    """An effect with an attribute of its own."""

    note = ""


class HandsOver(CleanupPolicy):
    name = "derived-delete"

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def plan(self, log: LogSummary, config: LogConfig, now_ms: int) -> Sequence[CleanupEffect]:
        self._notes.add("plan", log, config, *log.segments)
        assert config.plugin_configs[EVEN] == 4
        old = old_segments(log, config, now_ms)
        if old is None:
            return ()
        effect = Archived(up_to_base_offset=old.up_to_base_offset, receiver=self._receive, reason=self.name)
        object.__setattr__(effect, "note", "set by a plugin")
        return (effect,)

    def _receive(self, segment: SealedSegment) -> None:
        with open(segment.file.fileno(), "rb", closefd=False) as again:
            assert len(again.read()) == segment.size_bytes
        self._notes.add("segment", segment)


class Rewritten(RewriteSegments):
    pass


class Compacts(Compaction):
    name = "derived-compact"

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def plan(self, log: LogSummary, config: LogConfig, now_ms: int) -> Sequence[CleanupEffect]:
        return [self._mine(effect) for effect in super().plan(log, config, now_ms)]

    def _mine(self, effect: CleanupEffect) -> CleanupEffect:
        if not isinstance(effect, RewriteSegments):
            return effect
        fields = {field.name: getattr(effect, field.name) for field in dataclasses.fields(effect)}
        return Rewritten(**fields | {"record_filter": self._filter})

    def _filter(self, limits: FilterLimits) -> Any:
        self._notes.add("filter", limits)
        return Wrapped(latest_of_each_key(limits))


class Wrapped:
    """A filter that only looks like one."""

    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


class Number(int):
    """What stands for a broker need not be an int itself."""


class Elects(PreferredReplica, LeaderElectionStrategy):
    name = "derived"

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def elect(
        self,
        assignment: Sequence[BrokerId],
        isr: AbstractSet[BrokerId],
        live: AbstractSet[BrokerId],
        context: ElectionContext,
    ) -> BrokerId | None:
        self._notes.add("elect", list(assignment), set(isr), set(live), context)
        leader = super().elect(assignment, isr, live, context)
        return None if leader is None else BrokerId(Number(leader))


class Assigned(dict[str, Assignment]):
    pass


class Assigns(Uniform, GroupAssignor):
    name = "derived"

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def assign(
        self, members: Mapping[str, AssigningMember], partitions: Mapping[UUID, int]
    ) -> Mapping[str, Assignment]:
        self._notes.add("assign", *members.values())
        return Assigned(super().assign(members, partitions))


class Windows(ClientQuotas):
    """Nobody waits longer than a tenth of a second."""

    def __init__(self, notes: Notes) -> None:
        super().__init__(num_samples=3, window_ms=500)
        self._notes = notes

    def record(self, key: QuotaKey, amount: int, now_ms: int) -> int:
        waits_ms = super().record(key, amount, now_ms)
        if waits_ms:
            self._notes.add("throttle")
        return Number(min(waits_ms, 100))


class Client(ClientIdentity, frozen=True):
    pass


class Limits(ClientIdQuotas, QuotaManager):
    name = "derived"

    def __init__(self, notes: Notes) -> None:
        super().__init__()
        self._notes = notes
        self._produced = self._fetched = Windows(notes)

    def configure(self, settings: Mapping[str, str]) -> None:
        self._produced.set_limits(1000.0, {})
        self.is_unlimited = False

    def record_produce(self, client: ClientIdentity, size: int, now_ms: int) -> int:
        self._notes.add("produce", client, client.principal)
        return super().record_produce(client, size, now_ms)

    def drain_local(self) -> list[tuple[ClientIdentity, int, int]]:
        drained = super().drain_local()
        return [(Client(of.principal, of.client_id), produced, fetched) for of, produced, fetched in drained]


class Moves(ThrottledRate, ReplicationQuotaManager):
    name = "derived"

    def __init__(self, notes: Notes) -> None:
        super().__init__()
        self._notes = notes

    def configure(self, settings: Mapping[str, str], side: ReplicationSide, processes: int) -> None:
        super().configure(settings, side, processes)
        self._notes.add(f"replication-{side.value}-{self.is_unlimited}")


class Selects(RackAwareReplicaSelector, ReplicaSelector):
    name = "derived"

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def select(self, partition: TopicPartition, rack_id: str, replicas: Sequence[ReplicaView]) -> BrokerId | None:
        self._notes.add("select", partition, *replicas)
        assert super().select(partition, rack_id, replicas) is None
        return replicas[0].broker_id


class Told(Page):
    pass


class Reports(Prometheus, MetricsReporter):
    name = "derived"
    is_polled = True

    def __init__(self, notes: Notes) -> None:
        super().__init__()
        self._notes = notes

    def start(self, settings: Mapping[str, str], host: ReporterHost) -> None:
        self._host = host
        host.add_page("/derived", partial(self._told, host))

    def report(self, snapshot: MetricsSnapshot) -> None:
        self._notes.add("report", snapshot, *snapshot.families)

    def _told(self, host: ReporterHost) -> Page:
        count = len(host.snapshot().families)
        return Told(content_type="text/plain", body=f"{count > 0}".encode())


class Even(Between):
    def problem(self, value: Value) -> tuple[str, str] | None:
        found = super().problem(value)
        if found is None and isinstance(value, int) and value % 2:
            return str(value), "Value must be even"
        return found


class Config(TopicConfig):
    pass


@hookimpl
def kafkad_register_cleanup_policies(settings: Mapping[str, str]) -> Sequence[CleanupPolicy]:
    return [HandsOver(Notes(settings)), Compacts(Notes(settings))]


@hookimpl
def kafkad_register_leader_election_strategies(settings: Mapping[str, str]) -> Sequence[LeaderElectionStrategy]:
    return [Elects(Notes(settings))]


@hookimpl
def kafkad_register_group_assignors(settings: Mapping[str, str]) -> Sequence[GroupAssignor]:
    return [Assigns(Notes(settings))]


@hookimpl
def kafkad_register_quota_managers(settings: Mapping[str, str]) -> Sequence[QuotaManager]:
    return [Limits(Notes(settings))]


@hookimpl
def kafkad_register_replication_quota_managers(settings: Mapping[str, str]) -> Sequence[ReplicationQuotaManager]:
    return [Moves(Notes(settings))]


@hookimpl
def kafkad_register_replica_selectors(settings: Mapping[str, str]) -> Sequence[ReplicaSelector]:
    return [Selects(Notes(settings))]


@hookimpl
def kafkad_register_metrics_reporters(settings: Mapping[str, str]) -> Sequence[MetricsReporter]:
    reporter = Reports(Notes(settings))
    _REPORTERS.append(reporter)
    return [reporter]


@hookimpl
def kafkad_register_topic_configs() -> Sequence[TopicConfig]:
    documentation = "An even number."
    return [Config(name=EVEN, type=SettingType.INT, default=4, documentation=documentation, validator=Even(2, 8))]


_REPORTERS: list[Reports] = []


@hookimpl
def kafkad_broker_started(info: BrokerInfo) -> None:
    for reporter in _REPORTERS:
        reporter._notes.add("started", info)


@hookimpl
def kafkad_broker_stopping(info: BrokerInfo) -> None:
    for reporter in _REPORTERS:
        reporter._notes.add("stopping", info)
