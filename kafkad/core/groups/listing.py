"""Groups for tools: DescribeGroups of classic groups, ListGroups of all groups."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.classic.member import ClassicMember
from kafkad.core.groups.classic.state import ClassicState
from kafkad.core.groups.group import Group, GroupType
from kafkad.core.groups.registry import Groups

NO_METADATA = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    group_id: str
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    state: str
    type: GroupType


def describe_classic(groups: Groups, group_id: str) -> DescribedGroup:
    """A group that does not exist or is not classic is described as dead, with the error."""
    try:
        group = groups.find_classic(group_id)
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, code=error.code, message=error.message, state=ClassicState.DEAD.value)
    # Only in a stable group all members have metadata for the selected protocol.
    protocol = group.protocol if group.state is ClassicState.STABLE else None
    return DescribedGroup(
        group_id=group_id,
        state=group.state_name,
        protocol_type=group.protocol_type or "",
        protocol=protocol or "",
        members=tuple(_describe(member, protocol) for member in group.members.values()),
    )


def list_groups(groups: Iterable[Group], states: Collection[str], types: Collection[str]) -> tuple[ListedGroup, ...]:
    """Empty `states` or `types` do not filter; filters are case-insensitive."""
    requested_states = {state.lower().strip() for state in states}
    requested_types = {GroupType.parse(name) for name in types}
    return tuple(
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            state=group.state_name,
            type=group.type,
        )
        for group in groups
        if (not requested_states or group.state_name.lower() in requested_states)
        and (not requested_types or group.type in requested_types)
    )


def _describe(member: ClassicMember, protocol: str | None) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        metadata=NO_METADATA if protocol is None else member.metadata(protocol),
        assignment=member.assignment,
    )
