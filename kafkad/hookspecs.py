"""Every hook that a plugin may implement, with its contract. How to write one: docs/plugins.md.

`register_…` hooks run once, at start-up, in the supervisor before any other process exists: they return named
objects, which every process then holds; the hooks themselves are never called on a data path. `settings` are the
options as they are written in the configuration. `…_started` and `…_stopping` observe. An exception in a hook or a
registered object is always told; whom it costs what is said below (and kept by tests/daemon/test_failing_plugins.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pluggy

from kafkad.core.cleanup import CleanupPolicy
from kafkad.core.election import LeaderElectionStrategy
from kafkad.core.groups.consumer.assignors import GroupAssignor
from kafkad.core.metrics.metric import MetricsReporter
from kafkad.core.quotas.manager import QuotaManager
from kafkad.core.quotas.replication_quota import ReplicationQuotaManager
from kafkad.core.replica_selector import ReplicaSelector
from kafkad.core.settings.topic_config import TopicConfig

PROJECT = "kafkad"
HOOKSPEC_VERSION = 1
"""Raised when a hook or a registered object's contract changes so that plugins have to. A plugin may say
`kafkad_requires = 1`; another number stops the start with one line instead of failing later."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInfo:
    """What observers are told about the broker. `listeners` are `name://host:port`."""

    version: str
    broker_id: int
    cluster_id: str
    listeners: tuple[str, ...]
    log_dirs: tuple[str, ...]


@hookspec
def kafkad_register_cleanup_policies(settings: Mapping[str, str]) -> Sequence[CleanupPolicy]:
    """Ways to keep logs from growing; a topic chooses by name in `cleanup.policy`.

    Called: once at start-up, in the supervisor. The objects are used in cleaner processes, once per partition
    and `log.retention.check.interval.ms`, and soon after a change of a configuration. None: registers nothing. An
    exception here stops the start; one in `plan` is logged with the policy's name, and that partition is not cleaned by
    it until a configuration changes.
    """
    raise NotImplementedError


@hookspec
def kafkad_register_leader_election_strategies(settings: Mapping[str, str]) -> Sequence[LeaderElectionStrategy]:
    """Ways to choose a partition's leader; `kafkad.leader.election.strategy` names the one in use.

    Called: once at start-up, in the supervisor. The objects are used in the controller process, once per
    partition created or in need of a leader. None: registers nothing. An exception here stops the start; one in
    `elect`, or an illegal return value, ends the controller process, which is logged and restarted. The request gets
    UNKNOWN_SERVER_ERROR, and the next controller process does not handle it again.
    """
    raise NotImplementedError


@hookspec
def kafkad_register_quota_managers(settings: Mapping[str, str]) -> Sequence[QuotaManager]:
    """Ways to limit what clients produce and fetch; `kafkad.quota.manager` names the one in use.

    Called: once at start-up, in the supervisor. Each network process has its own copy of the object and calls it
    once per Produce and Fetch, unless it says `is_unlimited`: a microsecond spent there is one per request. None:
    registers nothing. An exception here stops the start; a later one ends the network process with its
    connections, which is logged and started again, and a start during which that happens again and again is given up.
    """
    raise NotImplementedError


@hookspec
def kafkad_register_replication_quota_managers(settings: Mapping[str, str]) -> Sequence[ReplicationQuotaManager]:
    """Ways to limit what throttled replicas move; `kafkad.replication.quota.manager` names the one in use.

    Called: once at start-up, in the supervisor. Each network process and each fetcher of a cluster has its own copy of
    the object and asks it for each throttled replica, unless it says `is_unlimited`. None: registers nothing. An
    exception here stops the start; a later one ends that process, which is logged and started again.
    """
    raise NotImplementedError


@hookspec
def kafkad_register_replica_selectors(settings: Mapping[str, str]) -> Sequence[ReplicaSelector]:
    """Ways to send consumers to replicas (KIP-392); `replica.selector.class` names the one in use, if any.

    Called: once at start-up, in the supervisor. The objects are used in network processes, once per partition that a
    consumer wants from its leader: a microsecond spent there is one per request. None: registers nothing. An exception
    here stops the start; one in `select`, or an illegal answer, ends the network process with its connections, which is
    logged and started again.
    """
    raise NotImplementedError


@hookspec
def kafkad_register_metrics_reporters(settings: Mapping[str, str]) -> Sequence[MetricsReporter]:
    """Ways to show metrics; `kafkad.metrics.reporters` names those in use.

    Called: once at start-up, in the supervisor. The objects are used in the reporter process only: `start` once,
    `report` every `kafka.metrics.polling.interval.secs`, `stop` once. None: registers nothing. An exception here
    stops the start; a later one ends the reporter process, which is logged and started again: no client notices. A
    start during which `start` raises again and again is given up, and when the broker stops nothing is started again.
    """
    raise NotImplementedError


@hookspec
def kafkad_register_group_assignors(settings: Mapping[str, str]) -> Sequence[GroupAssignor]:
    """Ways to divide the partitions of a consumer group whose broker does it (KIP-848); members choose by name.

    Called: once at start-up, in the supervisor. The objects are used in worker processes, once per change of a
    group's members, subscriptions or topics; `group.consumer.assignors` says which of them members may name, the
    first is the default. None: registers nothing. An exception here stops the start; one in `assign`, or an
    illegal answer, leaves the group with the assignment it has, and is logged with the assignor's name.
    """
    raise NotImplementedError


@hookspec
def kafkad_register_topic_configs(settings: Mapping[str, str]) -> Sequence[TopicConfig]:
    """Configs that topics may have beside Kafka's, for the cleanup policies of the plugin.

    Called: once at start-up, in the supervisor. CreateTopics and the config requests then take, check, keep and
    show them, in the controller process; `plan` of every cleanup policy finds their values in
    `config.plugin_configs`. None: registers nothing. An exception here stops the start; a validator that raises
    refuses the value, with INVALID_CONFIG to the client that has sent it.
    """
    raise NotImplementedError


@hookspec
def kafkad_broker_started(info: BrokerInfo) -> None:
    """The broker serves clients.

    Called: in the reporter process, once it is up after the broker got ready; again when that process had to be
    started anew. The answer is ignored. An exception ends the reporter process, which is logged and started again, and
    called again.
    """


@hookspec
def kafkad_broker_stopping(info: BrokerInfo) -> None:
    """The broker was told to stop; listeners are closing, what is in flight is still answered.

    Called: in the reporter process, once, before the reporters' `stop`; not at all when the broker is killed. The
    answer is ignored. An exception is logged as the end of the reporter process; the stop goes on.
    """
