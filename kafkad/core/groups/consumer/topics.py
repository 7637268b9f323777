"""The topics that a KIP-848 group is subscribed to, by name or by pattern, and whether they have changed.

Patterns are RE2's, as in Apache Kafka: they match in time proportional to the text, whatever a client sends.
"""

from collections.abc import Callable
from functools import lru_cache
from uuid import UUID
from zlib import crc32

from crc32c import crc32c

from kafkad.core.coordinator.topics import Topics
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.consumer.assignors import AssigningMember
from kafkad.core.groups.consumer.group import ConsumerGroup
from kafkad.core.ports import CompilePattern
from kafkad.core.quoting import quoted

_REMEMBERED = 4


class Subscriptions:
    """`compile_pattern` is RE2, which is outside of the core; `version` counts the changes of `topics`."""

    def __init__(self, topics: Topics, version: Callable[[], int], compile_pattern: CompilePattern) -> None:
        self.topics = topics
        self.version = version
        self._compile = lru_cache(maxsize=256)(compile_pattern)
        # Each heartbeat of a joining member asks the same of thousands of names.
        self._matching = lru_cache(maxsize=_REMEMBERED)(self._matching_as_of)
        self._ids = lru_cache(maxsize=_REMEMBERED)(self._ids_as_of)
        self._hash = lru_cache(maxsize=_REMEMBERED)(self._hash_as_of)

    def matching(self, pattern: str) -> tuple[str, ...]:
        """All topics whose whole name matches, sorted. Raises INVALID_REGULAR_EXPRESSION."""
        try:
            return self._matching(pattern, self.version())
        except ValueError as error:
            text = f"SubscribedTopicRegex `{quoted(pattern)}` is not a valid regular expression: {quoted(str(error))}."
            raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, text) from error

    def _matching_as_of(self, pattern: str, _version: int) -> tuple[str, ...]:
        compiled = self._compile(pattern)
        return tuple(sorted(name for name in self.topics.names() if compiled.fullmatch(name) is not None))

    def ids_of(self, names: frozenset[str]) -> frozenset[UUID]:
        """The ids of those that exist."""
        return self._ids(names, self.version())

    def _ids_as_of(self, names: frozenset[str], _version: int) -> frozenset[UUID]:
        ids = map(self.topics.id_of, names)
        return frozenset(topic_id for topic_id in ids if topic_id is not None)

    def hash_of(self, names: frozenset[str]) -> int:
        """A hash that changes when a topic is created, deleted, created anew or extended; 0: none exists."""
        return self._hash(names, self.version())

    def _hash_as_of(self, names: frozenset[str], _version: int) -> int:
        found = [(name, self.topics.id_of(name), self.topics.partitions_of(name)) for name in sorted(names)]
        there = [row for row in found if row[1] is not None]
        if not there:
            return 0
        said = repr(there).encode()
        return crc32c(said) << 31 ^ crc32(said) or 1

    def assigning(self, group: ConsumerGroup) -> tuple[dict[str, AssigningMember], dict[UUID, int]]:
        """The members as an assignor sees them, and the partition counts of all their topics that exist."""
        ids: dict[str, UUID] = {}
        partitions: dict[UUID, int] = {}
        for name in group.subscribed_names():
            topic_id, count = self.topics.id_of(name), self.topics.partitions_of(name)
            if topic_id is not None and count is not None:
                ids[name] = topic_id
                partitions[topic_id] = count
        # Members with the same subscription share one set, as they share the list of names.
        sets: dict[tuple[int, str | None], frozenset[UUID]] = {}
        members: dict[str, AssigningMember] = {}
        for member in group.members.values():
            subscription = id(member.topics), member.regex
            topics = sets.get(subscription)
            if topics is None:
                topics = frozenset(ids[name] for name in group.topics_of(member) if name in ids)
                sets[subscription] = topics
            members[member.member_id] = AssigningMember(
                member_id=member.member_id,
                topics=topics,
                assigned=group.target.get(member.member_id, {}),
                instance_id=member.instance_id,
                rack_id=member.rack_id,
            )
        return members, partitions
