"""The hooks that a plugin may implement, with their contracts. docs/plugins.md describes how to write a plugin.

`register_…` hooks are called once, at start-up, in the supervisor before it forks the other processes. They return
named objects, which all processes inherit; the data path uses these objects, not the hooks. `settings` are the options
as written in the configuration. `…_started` and `…_stopping` notify. Each exception in a hook or a registered object is
logged; the hooks below describe its effect (tests/daemon/test_failing_plugins.py tests it).
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
"""Incremented by incompatible changes of a hook or of a registered object's contract. A plugin may set
`kafkad_requires = 1`; with another number the start fails at once with one line."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInfo:
    """The broker's data for notifications. `listeners` are `name://host:port`."""

    version: str
    broker_id: int
    cluster_id: str
    listeners: tuple[str, ...]
    log_dirs: tuple[str, ...]


@hookspec
def kafkad_register_cleanup_policies(settings: Mapping[str, str]) -> Sequence[CleanupPolicy]:
    """Policies that clean or shorten logs; the names in a topic's `cleanup.policy` select them.

    Called: once at start-up, in the supervisor. The objects are used in cleaner processes, once per partition
    and `log.retention.check.interval.ms`, and soon after a change of a configuration. None: registers nothing. An
    exception here stops the start; an exception in `plan` is logged with the policy's name, and the policy does not
    clean that partition until a configuration changes.
    """
    raise NotImplementedError


@hookspec
def kafkad_register_leader_election_strategies(settings: Mapping[str, str]) -> Sequence[LeaderElectionStrategy]:
    """Strategies that elect the leaders of partitions; `kafkad.leader.election.strategy` selects one by name.

    Called: once at start-up, in the supervisor. The objects are used in the controller process, once per created
    partition and per election. None: registers nothing. An exception here stops the start; an exception in `elect`, or
    an invalid result, ends the controller process, which is logged and restarted. The request gets
    UNKNOWN_SERVER_ERROR, and the next incarnation does not handle it again.
    """
    raise NotImplementedError


@hookspec
def kafkad_register_quota_managers(settings: Mapping[str, str]) -> Sequence[QuotaManager]:
    """Quotas that limit the clients' produce and fetch rates; `kafkad.quota.manager` selects one by name.

    Called: once at start-up, in the supervisor. Each network process has its own copy of the object and calls it for
    each Produce and Fetch request, unless it is `is_unlimited`, so its speed affects each request. None: registers
    nothing. An exception here stops the start; a later exception ends the network process with its connections, which
    is logged and restarted. If this repeats during the start, the start is aborted.
    """
    raise NotImplementedError


@hookspec
def kafkad_register_replication_quota_managers(settings: Mapping[str, str]) -> Sequence[ReplicationQuotaManager]:
    """Quotas that limit the traffic of throttled replicas; `kafkad.replication.quota.manager` selects one by name.

    Called: once at start-up, in the supervisor. Each network process and each fetcher of a cluster has its own copy of
    the object and calls it for each throttled replica, unless it is `is_unlimited`. None: registers nothing. An
    exception here stops the start; a later exception ends that process, which is logged and restarted.
    """
    raise NotImplementedError


@hookspec
def kafkad_register_replica_selectors(settings: Mapping[str, str]) -> Sequence[ReplicaSelector]:
    """Selectors of consumers' preferred read replicas (KIP-392); `replica.selector.class` selects one by name, or none.

    Called: once at start-up, in the supervisor. The objects are used in network processes, for each partition that a
    consumer fetches from its leader, so their speed affects each request. None: registers nothing. An exception here
    stops the start; an exception in `select`, or an invalid result, ends the network process with its connections,
    which is logged and restarted.
    """
    raise NotImplementedError


@hookspec
def kafkad_register_metrics_reporters(settings: Mapping[str, str]) -> Sequence[MetricsReporter]:
    """Reporters of metrics; `kafkad.metrics.reporters` selects some by name.

    Called: once at start-up, in the supervisor. The objects are used in the reporter process only: `start` once,
    `report` every `kafka.metrics.polling.interval.secs`, `stop` once. None: registers nothing. An exception here
    stops the start; a later exception ends the reporter process, which is logged and restarted, without an effect on
    clients. If `start` fails repeatedly during the start of the broker, the start is aborted; during the stop of the
    broker the process is not restarted.
    """
    raise NotImplementedError


@hookspec
def kafkad_register_group_assignors(settings: Mapping[str, str]) -> Sequence[GroupAssignor]:
    """Server-side assignors of consumer groups (KIP-848); members select one by name.

    Called: once at start-up, in the supervisor. The objects are used in worker processes, once per change of a
    group's members, subscriptions or topics. `group.consumer.assignors` lists the assignors that members may select;
    the first is the default. None: registers nothing. An exception here stops the start; an exception in `assign`, or
    an invalid result, is logged with the assignor's name, and the group keeps its assignment.
    """
    raise NotImplementedError


@hookspec
def kafkad_register_topic_configs(settings: Mapping[str, str]) -> Sequence[TopicConfig]:
    """Additional topic configs, for the plugin's cleanup policies.

    Called: once at start-up, in the supervisor. CreateTopics and the config requests then accept, check, store and
    describe them, in the controller process; `plan` of every cleanup policy gets their values in
    `config.plugin_configs`. None: registers nothing. An exception here stops the start; a validator that raises
    rejects the value, with INVALID_CONFIG in the response.
    """
    raise NotImplementedError


@hookspec
def kafkad_broker_started(info: BrokerInfo) -> None:
    """The broker is ready.

    Called: in the reporter process, after the broker got ready; again after each restart of that process. The result is
    ignored. An exception ends the reporter process, which is logged and restarted, and the hook is called again.
    """


@hookspec
def kafkad_broker_stopping(info: BrokerInfo) -> None:
    """The broker stops: it closes its listeners, and completes pending requests.

    Called: in the reporter process, once, before the reporters' `stop`; not if the broker is killed. The result is
    ignored. An exception ends the reporter process, which is logged; the stop continues.
    """
