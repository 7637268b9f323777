"""JoinGroup and SyncGroup responses, packed by hand, read by kio and packed by it alike."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from kafkad.wire.api_table import JOIN_GROUP, SYNC_GROUP
from kafkad.wire.messages.membership_replies import pack_join, pack_sync
from tests.handlers.kio_calls import KioApi, versions_of

NAMES = st.text(alphabet=st.characters(codec="utf-8"), max_size=20) | st.just("x" * 300)
MEMBERS = st.lists(st.tuples(NAMES, st.none() | NAMES, st.binary(max_size=200)), max_size=3)
NOT_THROTTLED = timedelta(0)


@pytest.mark.parametrize("version", versions_of(JOIN_GROUP))
@given(
    code=st.sampled_from((0, 25, 79, -1)),
    generation=st.integers(-1, 2**31 - 1),
    protocol_type=st.none() | NAMES,
    protocol=st.none() | NAMES,
    leader=NAMES,
    skip_assignment=st.booleans(),
    member_id=NAMES,
    members=MEMBERS,
)
def test_join_is_packed_as_by_its_schema(
    version: int,
    code: int,
    generation: int,
    protocol_type: str | None,
    protocol: str | None,
    leader: str,
    skip_assignment: bool,
    member_id: str,
    members: list[tuple[str, str | None, bytes]],
) -> None:
    api = KioApi("join_group", version)
    by_schema = api.response(
        throttle_time=NOT_THROTTLED,
        error_code=ErrorCode(code),
        generation_id=generation,
        protocol_type=protocol_type,
        protocol_name=protocol if version >= 7 else protocol or "",
        leader=leader,
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=tuple(
            api.response_part(
                "JoinGroupResponseMember", member_id=each, group_instance_id=instance_id, metadata=metadata
            )
            for each, instance_id, metadata in members
        ),
    )
    by_hand = pack_join(
        version,
        code,
        generation,
        protocol_type=protocol_type,
        protocol=protocol,
        leader=leader,
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=members,
    )
    assert by_hand == by_schema


@pytest.mark.parametrize("version", versions_of(SYNC_GROUP))
@given(
    code=st.sampled_from((0, 27)),
    protocol_type=st.none() | NAMES,
    protocol=st.none() | NAMES,
    assignment=st.binary(max_size=200),
)
def test_sync_is_packed_as_by_its_schema(
    version: int, code: int, protocol_type: str | None, protocol: str | None, assignment: bytes
) -> None:
    api = KioApi("sync_group", version)
    by_schema = api.response(
        throttle_time=NOT_THROTTLED,
        error_code=ErrorCode(code),
        protocol_type=protocol_type,
        protocol_name=protocol,
        assignment=assignment,
    )
    by_hand = pack_sync(version, code, protocol_type=protocol_type, protocol=protocol, assignment=assignment)
    assert by_hand == by_schema
