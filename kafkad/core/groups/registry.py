"""All groups of this coordinator, with any protocol.

While the log is loaded only the newest record of each classic group is kept; `finish_loading` creates the groups from
them. Later the record of an existing classic group does not change the group, from which it was made. A group that
only has committed offsets is an empty classic group without a record.
"""

from collections.abc import Iterator

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.classic.group import ClassicGroup
from kafkad.core.groups.classic.records import restore_group
from kafkad.core.groups.consumer.group import REMOVALS, ConsumerGroup, ConsumerRecord
from kafkad.core.groups.group import Group
from kafkad.core.groups.records import ConsumerGroupMetadataRemoved, GroupMetadata
from kafkad.core.quoting import quoted

MEMBERS_PER_STEP = 200
"""Groups and members of one step after the replay: some 3 ms."""


class Groups:
    """All groups of one internal partition, by id."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}
        self._loaded_records: dict[str, GroupMetadata] = {}
        self._is_loading = True

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    def __len__(self) -> int:
        return len(self._groups)

    def ids(self) -> list[str]:
        """A copy, for callers that iterate in steps."""
        return list(self._groups)

    def in_steps(self) -> Iterator[list[Group]]:
        """The current groups in steps of some hundred members, without groups that are removed meanwhile."""
        step: list[Group] = []
        members = 0
        for group_id in self.ids():
            group = self._groups.get(group_id)
            if group is not None:
                step.append(group)
                members += 1 + group.size
                if members >= MEMBERS_PER_STEP:
                    yield step
                    step, members = [], 0
        yield step

    def get(self, group_id: str) -> Group | None:
        return self._groups.get(group_id)

    def find(self, group_id: str) -> Group:
        group = self._groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {quoted(group_id)} not found.")
        return group

    def find_classic(self, group_id: str) -> ClassicGroup:
        group = self.find(group_id)
        if not isinstance(group, ClassicGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {quoted(group_id)} is not a classic group.")
        return group

    def add(self, group: Group) -> None:
        """Add a group; replaces a group with the same id."""
        self._loaded_records.pop(group.group_id, None)
        self._groups[group.group_id] = group

    def remove(self, group_id: str) -> None:
        self._groups.pop(group_id, None)

    # Replay.

    def replay_metadata(self, record: GroupMetadata) -> None:
        """Replay a generation of a classic group."""
        if self._is_loading:
            self._loaded_records[record.group_id] = record
            return
        group = self._groups.get(record.group_id)
        if isinstance(group, ClassicGroup):
            group.is_logged = True
        else:
            self._groups[record.group_id] = restore_group(record)

    def replay_removed(self, group_id: str) -> None:
        """Replay the removal of a classic group; a group of another type has its own records."""
        self._loaded_records.pop(group_id, None)
        if isinstance(self._groups.get(group_id), ClassicGroup):
            del self._groups[group_id]

    def replay_consumer(self, record: ConsumerRecord) -> None:
        """Replay a record of a KIP-848 group: the first one creates the group, the group's tombstone removes it."""
        group = self._groups.get(record.group_id)
        if isinstance(record, ConsumerGroupMetadataRemoved):
            if isinstance(group, ConsumerGroup):
                del self._groups[record.group_id]
            return
        if not isinstance(group, ConsumerGroup):
            if isinstance(record, REMOVALS):
                return
            # A classic group with this id was removed by an earlier record, or has no record.
            group = ConsumerGroup(record.group_id)
            self._loaded_records.pop(record.group_id, None)
            self._groups[record.group_id] = group
        group.replay((record,))

    def replay_offset(self, group_id: str) -> None:
        """Create the group of an offset if it does not exist."""
        if group_id not in self._groups:
            self._groups[group_id] = ClassicGroup(group_id, None)

    def finish_loading(self) -> Iterator[None]:
        """Create the classic groups, in steps of some hundred members."""
        restored = 0
        while self._loaded_records:
            group_id, record = self._loaded_records.popitem()
            self._groups[group_id] = restore_group(record)
            restored += 1 + len(record.members)
            if restored >= MEMBERS_PER_STEP:
                restored = 0
                yield
        self._is_loading = False
