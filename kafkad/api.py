"""The public API for plugins.

`hookimpl` marks an implementation of a hook. kafkad/hookspecs.py has the hooks and their contracts, docs/plugins.md
describes how to write a plugin, `kafkad.testing` has test suites for the objects of plugins. Names in this module
change only together with `HOOKSPEC_VERSION`; all others may change in any version.

The rules of the built-in plugins (`preferred_leader`, `range_assignment`, `ClientQuotas`, …) are here too, for plugins
that change one detail.
"""

from kafkad.core.cleaning.cleanable import CleanableRange, cleanable_range
from kafkad.core.cleaning.latest_of_each_key import latest_of_each_key
from kafkad.core.cleanup import (
    NO_EXPORT,
    CleanupEffect,
    CleanupPolicy,
    DeleteSegments,
    FilterLimits,
    LogSummary,
    RewriteSegments,
    RollActive,
    SealedSegment,
    SegmentSummary,
    TransferSegments,
    age_from,
)
from kafkad.core.election import (
    ElectionContext,
    ElectionReason,
    LeaderElectionStrategy,
    controlled_shutdown_leader,
    offline_leader,
    preferred_leader,
    reassignment_leader,
)
from kafkad.core.groups.consumer.assignors import AssigningMember, Assignment, GroupAssignor, range_assignment
from kafkad.core.groups.consumer.uniform import uniform_assignment
from kafkad.core.log.settings import LogConfig
from kafkad.core.metrics.metric import (
    HistogramSample,
    Labels,
    MetricFamily,
    MetricKind,
    MetricsReporter,
    MetricsSnapshot,
    Page,
    ReporterHost,
    Sample,
)
from kafkad.core.quotas.client_quotas import ClientQuotas, QuotaKey
from kafkad.core.quotas.manager import QuotaManager
from kafkad.core.quotas.replication_quota import (
    NO_LIMIT,
    ReplicationQuota,
    ReplicationQuotaManager,
    ReplicationSide,
    share_of_rate,
)
from kafkad.core.replica_selector import ReplicaSelector, ReplicaView
from kafkad.core.request_context import ANONYMOUS, ClientIdentity, KafkaPrincipal
from kafkad.core.retention import exported_segments, first_kept_by_time, old_segments
from kafkad.core.settings.limits import Between, EachOneOf, NotEmpty, OneOf
from kafkad.core.settings.option import SettingType, Validator
from kafkad.core.settings.topic_config import TopicConfig
from kafkad.core.settings.values import Value
from kafkad.core.types import BrokerId, TopicPartition
from kafkad.hookspecs import HOOKSPEC_VERSION, BrokerInfo, hookimpl

__all__ = [
    "ANONYMOUS",
    "HOOKSPEC_VERSION",
    "NO_EXPORT",
    "NO_LIMIT",
    "AssigningMember",
    "Assignment",
    "Between",
    "BrokerId",
    "BrokerInfo",
    "CleanableRange",
    "CleanupEffect",
    "CleanupPolicy",
    "ClientIdentity",
    "ClientQuotas",
    "DeleteSegments",
    "EachOneOf",
    "ElectionContext",
    "ElectionReason",
    "FilterLimits",
    "GroupAssignor",
    "HistogramSample",
    "KafkaPrincipal",
    "Labels",
    "LeaderElectionStrategy",
    "LogConfig",
    "LogSummary",
    "MetricFamily",
    "MetricKind",
    "MetricsReporter",
    "MetricsSnapshot",
    "NotEmpty",
    "OneOf",
    "Page",
    "QuotaKey",
    "QuotaManager",
    "ReplicaSelector",
    "ReplicaView",
    "ReplicationQuota",
    "ReplicationQuotaManager",
    "ReplicationSide",
    "ReporterHost",
    "RewriteSegments",
    "RollActive",
    "Sample",
    "SealedSegment",
    "SegmentSummary",
    "SettingType",
    "TopicConfig",
    "TopicPartition",
    "TransferSegments",
    "Validator",
    "Value",
    "age_from",
    "cleanable_range",
    "controlled_shutdown_leader",
    "exported_segments",
    "first_kept_by_time",
    "hookimpl",
    "latest_of_each_key",
    "offline_leader",
    "old_segments",
    "preferred_leader",
    "range_assignment",
    "reassignment_leader",
    "share_of_rate",
    "uniform_assignment",
]
