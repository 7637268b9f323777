"""A classic group as a record, and the group restored from a record.

A record is one generation with all members and assignments. Pending requests, and the progress of a rebalance, are lost
with a restart.
"""

from collections.abc import Mapping

from kafkad.core.groups.classic.group import ClassicGroup
from kafkad.core.groups.classic.member import NO_ASSIGNMENT, ClassicMember
from kafkad.core.groups.classic.state import ClassicState
from kafkad.core.groups.records import GroupMember, GroupMetadata
from kafkad.core.types import NO_TIMESTAMP


def group_record(group: ClassicGroup, assignment: Mapping[str, bytes] | None = None) -> GroupMetadata:
    """The group as a record; `assignment` (by member id) replaces the current assignments."""
    return GroupMetadata(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=NO_TIMESTAMP if group.state_since_ms is None else group.state_since_ms,
        members=tuple(
            _member_record(
                member,
                group.protocol,
                member.assignment if assignment is None else assignment.get(member.member_id, NO_ASSIGNMENT),
            )
            for member in group.members.values()
        ),
    )


def new_group_record(group: ClassicGroup) -> GroupMetadata:
    """The record of a new group without members."""
    return GroupMetadata(
        group_id=group.group_id,
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=NO_TIMESTAMP if group.state_since_ms is None else group.state_since_ms,
    )


def restore_group(record: GroupMetadata) -> ClassicGroup:
    """The group after a restart; the members of the last generation count as alive."""
    since = record.current_state_timestamp
    group = ClassicGroup(record.group_id, None if since == NO_TIMESTAMP else since)
    group.is_logged = True
    group.generation = record.generation
    group.protocol = record.protocol
    group.protocol_type = record.protocol_type or None
    for member in record.members:
        group.add(ClassicMember.restored(member, record.protocol), record.protocol_type)
    if record.leader in group.members:
        group.leader = record.leader
    if group.members:
        group.state = ClassicState.STABLE
    group.refresh_subscription()
    return group


def _member_record(member: ClassicMember, protocol: str | None, assignment: bytes) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol),
        assignment=assignment,
    )
