"""DeleteTopics: the topics to delete, and the result of each entry, with Kafka's checks and order.

The controller carries out the deletion in two phases.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from kafkad.core.controller.elected.elected import ElectedController
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.types import NO_TOPIC_ID

_UNKNOWN_TOPIC = "This server does not host this topic-partition."
_UNKNOWN_ID = "This server does not host this topic ID."


@dataclass(frozen=True, slots=True)
class TopicToDelete:
    """One entry: a name, or an id with `name` None."""

    name: str | None
    id: UUID = NO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    """The result of one entry."""

    name: str | None
    id: UUID = NO_TOPIC_ID
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


def delete_topics(
    controller: ElectedController, entries: Sequence[TopicToDelete], *, version: int
) -> list[DeletedTopic]:
    """DeleteTopics at the API `version`; topics without an error are removed from the metadata afterwards."""
    if not controller.settings.delete_topic_enable:
        # TOPIC_DELETION_DISABLED is a code of version 3.
        code = ErrorCode.INVALID_REQUEST if version < 3 else ErrorCode.TOPIC_DELETION_DISABLED
        return [DeletedTopic(entry.name, entry.id, code) for entry in entries]
    results: list[DeletedTopic] = []
    names: Counter[str] = Counter()
    ids: Counter[UUID] = Counter()
    for entry in entries:
        if entry.name is None and entry.id == NO_TOPIC_ID:
            results.append(_invalid(None, NO_TOPIC_ID, "Neither topic name nor id were specified."))
        elif entry.name is None:
            ids[entry.id] += 1
        elif entry.id == NO_TOPIC_ID:
            names[entry.name] += 1
        else:
            results.append(_invalid(entry.name, entry.id, "You may not specify both topic name and topic id."))
    by_id = _resolve_ids(controller, ids, results)
    found = _resolve_names(controller, names, ids, by_id, results)
    code, message = ErrorCode.NONE, None
    try:
        controller.delete_topics(list(found.values()))
    except KafkaError as error:
        code, message = error.code, error.message
    results += [DeletedTopic(name, topic_id, code, message) for topic_id, name in found.items()]
    return results


def _resolve_ids(controller: ElectedController, ids: Counter[UUID], results: list[DeletedTopic]) -> dict[UUID, str]:
    found = {}
    for topic_id, count in ids.items():
        topic = controller.image.topic_by_id(topic_id)
        if count > 1:
            results.append(_invalid(None, topic_id, "Duplicate topic id."))
        elif topic is None:
            results.append(DeletedTopic(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID, _UNKNOWN_ID))
        else:
            found[topic_id] = topic.name
    return found


def _resolve_names(
    controller: ElectedController,
    names: Counter[str],
    ids: Counter[UUID],
    by_id: dict[UUID, str],
    results: list[DeletedTopic],
) -> dict[UUID, str]:
    found = dict(by_id)
    for name, count in names.items():
        topic = controller.image.topics.get(name)
        if count > 1:
            results.append(_invalid(name, NO_TOPIC_ID, "Duplicate topic name."))
        elif topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            results.append(DeletedTopic(name, NO_TOPIC_ID, code, _UNKNOWN_TOPIC))
        elif topic.id in ids:
            found.pop(topic.id, None)
            text = "The provided topic name maps to an ID that was already supplied."
            results.append(_invalid(name, topic.id, text))
        else:
            found[topic.id] = name
    return found


def _invalid(name: str | None, topic_id: UUID, message: str) -> DeletedTopic:
    return DeletedTopic(name, topic_id, ErrorCode.INVALID_REQUEST, message)
