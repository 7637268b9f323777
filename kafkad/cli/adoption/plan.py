"""Plan the takeover of each topic: its id, partitions and configs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from kafkad.cli.adoption.foreign_topics import ForeignCluster, ForeignTopic
from kafkad.cli.adoption.found_partitions import FoundPartition
from kafkad.config import BrokerConfig
from kafkad.config.altering import ConfigTables
from kafkad.core.controller.startup.repair import UNLIMITED_RETENTION, configs_of_adopted
from kafkad.core.controller.store.stored_metadata import StoredTopic
from kafkad.core.controller.topics.names import is_internal
from kafkad.core.errors import KafkaError
from kafkad.processes.controller.internal_topics import internal_topics

NEW, TAKEN_OVER, KNOWN = "new", "taken over", "known"
"""Not in the broker's store; in the store with unlimited retention; in the store with other configs."""

_SMALLEST_LOG_MAGIC = 2


@dataclass(slots=True, kw_only=True)
class TopicPlan:
    """`source` is None if no source has the topic. `rejected` maps rejected configs to reasons."""

    name: str
    state: str
    found: list[FoundPartition]
    topic_id: UUID | None = None
    partitions: int = 0
    source: str | None = None
    configs: dict[str, str] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def missing(self) -> list[int]:
        """The partitions without a directory."""
        here = {each.name.partition for each in self.found}
        return [index for index in range(self.partitions) if index not in here]


def plan_topics(
    found: Sequence[FoundPartition],
    sources: Sequence[ForeignCluster],
    stored: Mapping[str, StoredTopic],
    broker: BrokerConfig,
) -> list[TopicPlan]:
    """One plan for each topic, by name. The configs come from the first source that has the topic."""
    tables = ConfigTables(broker=broker)
    by_topic: dict[str, list[FoundPartition]] = {}
    for each in found:
        by_topic.setdefault(each.name.topic, []).append(each)
    plans = []
    for name, partitions in by_topic.items():
        plan = TopicPlan(name=name, state=_state(stored.get(name)), found=partitions)
        _identify(plan)
        _describe(plan, sources, tables, broker)
        _find_problems(plan)
        plans.append(plan)
    return plans


def _state(stored: StoredTopic | None) -> str:
    if stored is None:
        return NEW
    return TAKEN_OVER if stored.configs == UNLIMITED_RETENTION else KNOWN


def _identify(plan: TopicPlan) -> None:
    ids = {each.directory.topic_id for each in plan.found if each.directory.topic_id is not None}
    plan.topic_id = min(ids, default=None)
    plan.partitions = max(each.name.partition for each in plan.found) + 1
    if len(ids) > 1:
        plan.problems.append(
            f"the partitions have {len(ids)} different topic ids: a start keeps one, and the others become stray"
        )


def _describe(plan: TopicPlan, sources: Sequence[ForeignCluster], tables: ConfigTables, broker: BrokerConfig) -> None:
    for source in sources:
        topic = source.topics.get(plan.name)
        if topic is None:
            continue
        if topic.topic_id is not None and plan.topic_id not in (None, topic.topic_id):
            plan.problems.append(f"{source.source} has a topic of this name with another id")
            continue
        plan.source = source.source
        plan.topic_id = plan.topic_id or topic.topic_id
        plan.partitions = max(plan.partitions, topic.partitions or 0)
        _apply_configs(plan, topic, tables)
        return
    plan.configs = configs_of_adopted(plan.name, internal_topics(broker))


def _apply_configs(plan: TopicPlan, topic: ForeignTopic, tables: ConfigTables) -> None:
    for name, value in sorted(topic.configs.items()):
        try:
            tables.validate_topic({name: value})
        except KafkaError as error:
            plan.rejected[name] = str(error)
        else:
            plan.configs[name] = value
    try:
        tables.validate_topic(plan.configs)
    except KafkaError as error:
        plan.problems.append(f"its configs contradict each other: {error}")


def _find_problems(plan: TopicPlan) -> None:
    seen: dict[int, FoundPartition] = {}
    for each in plan.found:
        first = seen.setdefault(each.name.partition, each)
        if first is not each:
            plan.problems.append(f"{each.name} is in {first.path} and {each.path}: move one of them away")
        plan.problems += [f"{each.name}: {damage}" for damage in each.survey.damage]
        if any(magic < _SMALLEST_LOG_MAGIC for magic in each.survey.magics):
            plan.problems.append(f"{each.name} has messages in a format before 0.11: it stays offline and unchanged")
    if plan.missing and not is_internal(plan.name):
        shown = ", ".join(map(str, plan.missing[:10])) + (", …" if len(plan.missing) > 10 else "")
        plan.problems.append(
            f"{len(plan.missing)} of {plan.partitions} partitions are not in these directories and begin empty: {shown}"
        )
