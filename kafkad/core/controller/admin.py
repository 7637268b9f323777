"""Requests about several topics or resources: one result for each, with Kafka's order and error texts.

Each topic or resource is changed as a whole or gets an error. With validate-only nothing is changed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from kafkad.core.controller.configs import (
    Alteration,
    AlterResult,
    ConfigRules,
    ResourceType,
    alter_incrementally,
    check_entries,
    check_resource,
    replace_all,
    validate,
)
from kafkad.core.controller.controller import Controller, PlannedTopic
from kafkad.core.controller.image import NO_LEADER, MetadataImage, Topic
from kafkad.core.controller.partition_rows import make_partition
from kafkad.core.controller.settings import RandomSource
from kafkad.core.controller.store.stored_metadata import PartitionState
from kafkad.core.controller.topics.assignment import Assignment
from kafkad.core.controller.topics.names import CLUSTER_METADATA_TOPIC, CollisionIndex, check_topic_name
from kafkad.core.controller.topics.placement import NO_PLACE
from kafkad.core.controller.topics.topics import (
    NewPartitions,
    NewTopic,
    TopicResult,
    adds_too_many_partitions,
    assign_more_partitions,
    assign_topic,
    configs_to_set,
    requests_too_many_partitions,
)
from kafkad.core.errors import ErrorCode, KafkaError

_TOO_MANY = "Excessively large number of partitions per request."


def create_topics(
    controller: Controller,
    requested: Sequence[NewTopic],
    rules: ConfigRules,
    random_source: RandomSource,
    *,
    validate_only: bool = False,
) -> list[TopicResult]:
    """CreateTopics: results of topics named once, then of topics rejected as a whole."""
    if requests_too_many_partitions(requested, controller.settings.defaults):
        return [_rejected(new.name, ErrorCode.POLICY_VIOLATION, _TOO_MANY) for new in requested]
    counts = Counter(new.name for new in requested)
    results: dict[str, TopicResult] = {}
    planned: dict[str, PlannedTopic] = {}
    # Topics earlier in the request count as existing topics.
    ahead = CollisionIndex()
    space_taken = 0
    for new in requested:
        if counts[new.name] > 1 or new.name == CLUSTER_METADATA_TOPIC:
            continue
        try:
            plan = _plan(controller, new, rules, random_source)
            ahead.check(new.name)
            controller.require_space(space_taken + len(plan.assignments))
        except KafkaError as error:
            results[new.name] = _failed(new.name, error)
            continue
        ahead.add(new.name)
        space_taken += len(plan.assignments)
        planned[new.name] = plan
        results[new.name] = TopicResult(name=new.name)
    if validate_only:
        results |= {name: TopicResult(name=name, topic=_preview(plan)) for name, plan in planned.items()}
    else:
        results |= _create(controller, planned)
    for name, count in counts.items():
        if count > 1:
            results[name] = _rejected(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        elif name == CLUSTER_METADATA_TOPIC:
            text = f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited."
            results[name] = _rejected(name, ErrorCode.INVALID_REQUEST, text)
    return list(results.values())


def _create(controller: Controller, planned: Mapping[str, PlannedTopic]) -> dict[str, TopicResult]:
    try:
        created = controller.create_topics(list(planned.values()))
    except KafkaError as error:
        return {name: _failed(name, error) for name in planned}
    return {topic.name: TopicResult(name=topic.name, topic=topic) for topic in created}


def auto_create_topics(
    controller: Controller, names: Sequence[str], rules: ConfigRules, random_source: RandomSource
) -> dict[str, TopicResult]:
    """Create the topics that a request uses. A topic that exists afterwards has no error."""
    missing = [name for name in dict.fromkeys(names) if name not in controller.image.topics]
    internal = controller.settings.internal_topics
    requested = [
        controller.adapt_internal_topic(internal[name]) if name in internal else NewTopic(name=name) for name in missing
    ]
    results = {result.name: result for result in create_topics(controller, requested, rules, random_source)}
    # A topic that is being deleted can be created soon: this code makes the client retry.
    results |= {
        name: _rejected(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic is being deleted.")
        for name, result in results.items()
        if result.code is ErrorCode.TOPIC_ALREADY_EXISTS
    }
    return {name: results.get(name, TopicResult(name=name)) for name in names}


def create_partitions(
    controller: Controller, requested: Sequence[NewPartitions], *, validate_only: bool = False
) -> list[TopicResult]:
    """CreatePartitions, each topic by itself; all additional partitions become visible together."""
    if adds_too_many_partitions(requested, controller.image.topics):
        return [_rejected(new.name, ErrorCode.POLICY_VIOLATION, _TOO_MANY) for new in requested]
    counts = Counter(new.name for new in requested)
    results = [
        _rejected(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        for name, count in counts.items()
        if count > 1
    ]
    planned: dict[str, Sequence[Assignment]] = {}
    space_taken = 0
    for new in requested:
        if counts[new.name] > 1:
            continue
        try:
            topic = controller.image.topics.get(new.name)
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if any(row.adding or row.removing for row in topic.partitions):
                text = f"A partition reassignment is in progress for the topic '{new.name}'."
                raise KafkaError(ErrorCode.REASSIGNMENT_IN_PROGRESS, text)
            assignments = assign_more_partitions(topic, new, controller.image.brokers)
            controller.require_space(space_taken + len(assignments))
        except KafkaError as error:
            results.append(_failed(new.name, error))
            continue
        space_taken += len(assignments)
        planned[new.name] = assignments
        results.append(TopicResult(name=new.name, topic=topic))
    if validate_only:
        return results
    try:
        controller.add_partitions(planned)
    except KafkaError as error:
        return [_failed(each.name, error) if each.name in planned else each for each in results]
    return results


def alter_configs(
    controller: Controller,
    alterations: Sequence[Alteration],
    rules: ConfigRules,
    *,
    incremental: bool,
    validate_only: bool = False,
) -> list[AlterResult]:
    """AlterConfigs and IncrementalAlterConfigs: one result for each alteration, in their order."""
    counts = Counter((each.resource_type, each.resource_name) for each in alterations)
    results = []
    for alteration in alterations:
        try:
            if counts[alteration.resource_type, alteration.resource_name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            _alter(controller, alteration, rules, incremental, validate_only)
        except KafkaError as error:
            results.append(AlterResult(error.code, error.message))
        else:
            results.append(AlterResult())
    return results


def _plan(controller: Controller, new: NewTopic, rules: ConfigRules, random_source: RandomSource) -> PlannedTopic:
    if new.name in controller.image.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{new.name}' already exists.")
    if new.name in controller.deletions:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{new.name}' is marked for deletion.")
    if new.name in controller.unreadable_topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{new.name}' exists and can't be read.")
    check_topic_name(new.name)
    controller.collisions.check(new.name)
    configs = configs_to_set(new)
    validate(ResourceType.TOPIC, new.name, configs, rules)
    assignments = assign_topic(new, controller.image.brokers, controller.settings.defaults, random_source.random_below)
    return PlannedTopic(new.name, random_source.new_topic_id(), tuple(assignments), configs)


def _preview(plan: PlannedTopic) -> Topic:
    """The topic in a validate-only response: partitions and replicas, but no slots and leaders."""
    partitions = tuple(
        make_partition(index, NO_PLACE, replicas, PartitionState(leader=NO_LEADER, leader_epoch=0, isr=()))
        for index, replicas in enumerate(plan.assignments)
    )
    return Topic(name=plan.name, id=plan.id, partitions=partitions, configs=plan.configs)


def _alter(
    controller: Controller, alteration: Alteration, rules: ConfigRules, incremental: bool, validate_only: bool
) -> None:
    check_entries(alteration)
    resource_type = check_resource(alteration, controller.id)
    name = alteration.resource_name
    current = rules.in_force(resource_type, _current_configs(controller.image, resource_type, name))
    if incremental:
        configs = alter_incrementally(resource_type, current, alteration.entries, rules)
    else:
        configs = replace_all(alteration.entries)
    validate(resource_type, name, configs, rules)
    if resource_type is ResourceType.TOPIC and name not in controller.image.topics:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    if validate_only:
        return
    if resource_type is ResourceType.TOPIC:
        controller.set_topic_config(name, configs)
    elif resource_type is ResourceType.GROUP:
        controller.set_group_config(name, configs)
    else:
        controller.set_broker_config(name, configs)


def _current_configs(image: MetadataImage, resource_type: ResourceType, name: str) -> dict[str, str]:
    if resource_type is ResourceType.BROKER:
        return dict(image.broker_configs.get(name, {}))
    if resource_type is ResourceType.GROUP:
        return dict(image.group_configs.get(name, {}))
    topic = image.topics.get(name)
    return {} if topic is None else dict(topic.configs)


def _failed(name: str, error: KafkaError) -> TopicResult:
    return TopicResult(name=name, code=error.code, message=error.message)


def _rejected(name: str, code: ErrorCode, message: str) -> TopicResult:
    return TopicResult(name=name, code=code, message=message)
