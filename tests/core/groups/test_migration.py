"""A group with members changes from the classic to the consumer protocol and back."""

from dataclasses import replace

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.core.groups import migration
from kafkad.core.groups.classic.group import ClassicGroup
from kafkad.core.groups.classic.messages import Joined, LeavingMember
from kafkad.core.groups.consumer import subscribed_names
from kafkad.core.groups.consumer.config import MigrationPolicy
from kafkad.core.groups.consumer.group import ConsumerGroup
from kafkad.core.groups.consumer.messages import ConsumerHeartbeat
from kafkad.core.groups.embedded_protocol import (
    EmbeddedAssignment,
    Named,
    Subscription,
    read_assignment,
    read_subscription,
    write_assignment,
)
from tests.core.groups.classic_bed import GROUP
from tests.core.groups.consumer_bed import Client, ConsumerBed, settle
from tests.core.groups.offsets_bed import ORDERS

SUBSCRIBED = b"\0\1\0\0\0\1\0\6orders\xff\xff\xff\xff"


def protocols(owned: Named) -> tuple[tuple[str, bytes], ...]:
    """What a cooperative consumer says that has `owned`."""
    return (("cooperative-sticky", SUBSCRIBED + write_assignment(owned, 1)[2:-4]),)


class OldConsumer:
    """A client of the classic protocol, as it behaves: heartbeats, joins when told to, asks for its assignment."""

    def __init__(self, bed: ConsumerBed, instance_id: str | None = None) -> None:
        self.bed = bed
        self.instance_id = instance_id
        self.owned: Named = {}
        self.member_id = ""
        self.generation = -1
        self.leads = False

    def join(self) -> int:
        token = self.bed.join(self.member_id, protocols=protocols(self.owned), instance_id=self.instance_id)
        answer = self.bed.answers.get(token)
        if isinstance(answer, Joined) and answer.code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            token = self.bed.join(self.member_id, protocols=protocols(self.owned))
        return token

    def joined(self, token: int) -> None:
        answer = self.bed.joined(token)
        assert answer.code is ErrorCode.NONE, answer
        self.member_id, self.generation = answer.member_id, answer.generation
        self.leads = answer.leader == self.member_id

    def sync(self, assignments: dict[str, bytes] | None = None) -> None:
        answer = self.bed.synced(self.bed.sync(self.member_id, self.generation, assignments))
        assert answer.code is ErrorCode.NONE, answer
        self.owned = read_assignment(answer.assignment).partitions

    def beat(self) -> None:
        """A heartbeat, and a join when it is told to, with what it has; the group must answer that at once."""
        code = self.bed.heartbeat(self.member_id, self.generation)
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.joined(self.join())
            self.sync()
        else:
            assert code is ErrorCode.NONE, code

    @property
    def size(self) -> int:
        return sum(map(len, self.owned.values()))


def classic_group(bed: ConsumerBed, size: int) -> list[OldConsumer]:
    """A stable classic group whose leader divided the four partitions."""
    members = [OldConsumer(bed) for _ in range(size)]
    tokens = [member.join() for member in members]
    bed.advance(7_000)
    for member, token in zip(members, tokens, strict=True):
        member.joined(token)
    shares = {
        member.member_id: write_assignment({"orders": frozenset(range(n, 4, size))}, 1)
        for n, member in enumerate(members)
    }
    leader = next(member for member in members if member.leads)
    leader.sync(shares)
    for member in members:
        if member is not leader:
            member.sync()
    return members


def all_beat(members: list[OldConsumer], *clients: Client) -> None:
    for _ in range(6):
        for client in clients:
            client.beat()
        for member in members:
            member.beat()


def read_by(members: list[OldConsumer], *clients: Client) -> list[int]:
    old = [index for member in members for index in member.owned.get("orders", ())]
    return sorted(old + [index for client in clients for index in client.asked.get(ORDERS, ())])


def test_a_classic_group_goes_over_with_the_first_new_member() -> None:
    bed = ConsumerBed()
    members = classic_group(bed, 2)
    client = Client(bed, "new", "orders", group_id=GROUP)
    heard = client.beat()
    assert heard.code is ErrorCode.NONE
    assert heard.assignment == {}, "the old members have everything"
    assert isinstance(bed.shard.groups.get(GROUP), ConsumerGroup)
    all_beat(members, client)
    assert sorted([client.size, *(member.size for member in members)]) == [1, 1, 2]
    assert read_by(members, client) == [0, 1, 2, 3]


def test_a_group_that_went_over_is_the_same_after_a_crash() -> None:
    bed = ConsumerBed()
    members = classic_group(bed, 2)
    client = Client(bed, "new", "orders", group_id=GROUP)
    client.beat()
    bed.crash()
    all_beat(members, client)
    assert read_by(members, client) == [0, 1, 2, 3]


def test_a_join_that_waits_when_the_group_goes_over_is_told_to_come_again() -> None:
    bed = ConsumerBed()
    (member,) = classic_group(bed, 1)
    second = OldConsumer(bed)
    waiting = second.join()
    client = Client(bed, "new", "orders", group_id=GROUP)
    client.beat()
    assert bed.joined(waiting).code is ErrorCode.REBALANCE_IN_PROGRESS
    second.joined(second.join())
    second.sync()
    all_beat([member, second], client)
    assert read_by([member, second], client) == [0, 1, 2, 3]


def test_a_join_that_waits_goes_on_waiting_when_the_log_refuses_that_the_group_goes_over() -> None:
    bed = ConsumerBed()
    (member,) = classic_group(bed, 1)
    second = OldConsumer(bed)
    waiting = second.join()
    bed.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    Client(bed, "new", "orders", group_id=GROUP).try_beat()
    assert bed.unanswered() == [waiting]
    bed.log.refusal = None
    rejoined = member.join()
    second.joined(waiting)
    member.joined(rejoined)


def test_who_waits_when_the_group_goes_over_is_answered_also_when_replicas_are_too_slow() -> None:
    bed = ConsumerBed()
    classic_group(bed, 1)
    OldConsumer(bed).join()
    bed.log.lag()
    joining = Client(bed, "new", "orders", group_id=GROUP).first()
    bed.ask(lambda asked: bed.shard.consumer.heartbeat(joining, asked.token, bed.moment))
    bed.advance(11_000)
    assert bed.unanswered() == []


def test_members_of_a_group_that_went_back_while_replicas_were_slow_have_sessions() -> None:
    bed = ConsumerBed()
    members = classic_group(bed, 2)
    client = Client(bed, "new", "orders", group_id=GROUP)
    all_beat(members, client)
    bed.log.lag()
    leaving = ConsumerHeartbeat(group_id=GROUP, member_id="new", member_epoch=-1)
    bed.ask(lambda asked: bed.shard.consumer.heartbeat(leaving, asked.token, bed.moment))
    bed.advance(6_000)
    bed.log.is_lagging = False
    assert bed.group.state_name == "PreparingRebalance"
    bed.advance(200_000)
    assert bed.group.state_name == "Empty"


def test_the_group_goes_back_when_the_last_new_member_leaves() -> None:
    bed = ConsumerBed()
    members = classic_group(bed, 2)
    client = Client(bed, "new", "orders", group_id=GROUP)
    all_beat(members, client)
    client.leave()
    group = bed.shard.groups.get(GROUP)
    assert isinstance(group, ClassicGroup)
    assert set(group.members) == {member.member_id for member in members}
    for member in members:
        assert bed.heartbeat(member.member_id, group.generation) is ErrorCode.REBALANCE_IN_PROGRESS
    tokens = [member.join() for member in members]
    for member, token in zip(members, tokens, strict=True):
        member.joined(token)
    assert sum(member.leads for member in members) == 1
    bed.crash()
    assert isinstance(bed.shard.groups.get(GROUP), ClassicGroup)


def test_the_group_goes_back_when_a_static_member_replaces_the_last_new_one() -> None:
    """Nothing has changed but the protocol: nobody rebalances, and it goes on with what it had."""
    bed = ConsumerBed()
    (other,) = classic_group(bed, 1)
    client = Client(bed, "new", "orders", group_id=GROUP, instance_id="one")
    all_beat([other], client)
    assert client.size == 2
    old = OldConsumer(bed, instance_id="one")
    old.joined(old.join())
    group = bed.shard.groups.get(GROUP)
    assert isinstance(group, ClassicGroup)
    assert set(group.members) == {old.member_id, other.member_id}
    assert group.state_name == "Stable"
    old.sync()
    assert read_by([old, other]) == [0, 1, 2, 3]
    assert bed.heartbeat(other.member_id, other.generation) is ErrorCode.NONE
    heard = bed.say(
        ConsumerHeartbeat(group_id=GROUP, member_id="new", member_epoch=client.epoch, instance_id="one", owned={})
    )
    assert heard.code is ErrorCode.GROUP_ID_NOT_FOUND
    bed.crash()
    group = bed.shard.groups.get(GROUP)
    assert isinstance(group, ClassicGroup) and set(group.members) == {old.member_id, other.member_id}
    bed.advance(11_000)
    assert group.state_name == "Empty", "their sessions run"


def test_who_replaces_the_last_new_member_and_wants_other_topics_makes_a_rebalance() -> None:
    bed = ConsumerBed()
    (other,) = classic_group(bed, 1)
    client = Client(bed, "new", "orders", "payments", group_id=GROUP, instance_id="one")
    all_beat([other], client)
    old = OldConsumer(bed, instance_id="one")
    answer = bed.joined(old.join())
    assert (answer.code, answer.generation) == (ErrorCode.NONE, 0), "which is none: it has to join again"
    group = bed.shard.groups.get(GROUP)
    assert isinstance(group, ClassicGroup)
    assert group.state_name == "PreparingRebalance"
    assert bed.heartbeat(other.member_id, other.generation) is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_group_stays_when_the_policy_forbids_to_go_back() -> None:
    bed = ConsumerBed()
    (other,) = classic_group(bed, 1)
    client = Client(bed, "new", "orders", group_id=GROUP, instance_id="one")
    all_beat([other], client)
    bed.shard.configure(replace(bed.consumer_config, migration_policy=MigrationPolicy.UPGRADE))
    old = OldConsumer(bed, instance_id="one")
    old.joined(old.join())
    old.sync()
    assert isinstance(bed.shard.groups.get(GROUP), ConsumerGroup)
    all_beat([old, other])
    assert read_by([old, other]) == [0, 1, 2, 3]


def test_who_went_back_may_still_speak_all_that_it_said() -> None:
    bed = ConsumerBed()
    (other,) = classic_group(bed, 1)
    group = bed.shard.groups.find_classic(GROUP)
    member = group.members[other.member_id]
    both = (*member.protocols, ("range", SUBSCRIBED + write_assignment({}, 1)[2:-4]))
    group.update(member, both, rebalance_timeout_ms=60_000, session_timeout_ms=10_000, join_token=None)
    client = Client(bed, "new", "orders", group_id=GROUP)
    client.beat()
    client.leave()
    token = bed.join(protocols=(("range", SUBSCRIBED + write_assignment({}, 1)[2:-4]),), version=3)
    assert token not in bed.answers, "it waits for the others, and is not refused"


def test_tools_remove_members_of_either_protocol() -> None:
    bed = ConsumerBed()
    (old,) = classic_group(bed, 1)
    client = Client(bed, "new", "orders", group_id=GROUP, instance_id="one")
    all_beat([old], client)
    left = bed.left(bed.leave(LeavingMember(member_id="", instance_id="one"), LeavingMember(member_id="stranger")))
    assert [(each.member_id, each.code) for each in left.members] == [
        ("", ErrorCode.NONE),
        ("stranger", ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert isinstance(bed.shard.groups.get(GROUP), ClassicGroup), "only the old one is left"


def test_a_member_that_is_told_to_join_again_in_its_sync_has_its_time_for_that() -> None:
    bed = ConsumerBed()
    (old,) = classic_group(bed, 1)
    client = Client(bed, "new", "orders", group_id=GROUP)
    client.beat()
    answer = bed.synced(bed.sync(old.member_id, old.generation))
    assert answer.code is ErrorCode.REBALANCE_IN_PROGRESS
    for _ in range(12):
        bed.advance(5_000)
        client.beat()
        if bed.heartbeat(old.member_id, old.generation) is ErrorCode.UNKNOWN_MEMBER_ID:
            break
    else:
        raise AssertionError("it is still there")
    settle(client)
    assert client.size == 4


def test_old_members_that_leave_make_it_a_group_of_new_ones_only() -> None:
    bed = ConsumerBed()
    members = classic_group(bed, 2)
    client = Client(bed, "new", "orders", group_id=GROUP)
    all_beat(members, client)
    left = bed.left(bed.leave(*(member.member_id for member in members)))
    assert [each.code for each in left.members] == [ErrorCode.NONE, ErrorCode.NONE]
    settle(client)
    assert client.size == 4


def test_an_old_member_that_does_not_join_again_is_out() -> None:
    bed = ConsumerBed()
    first, second = classic_group(bed, 2)
    client = Client(bed, "new", "orders", group_id=GROUP)
    all_beat([second], client)
    for _ in range(13):
        assert bed.heartbeat(first.member_id, first.generation) in (
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.UNKNOWN_MEMBER_ID,
        )
        bed.advance(5_000)
        all_beat([second], client)
    assert read_by([second], client) == [0, 1, 2, 3]


def test_the_policy_can_forbid_either_way() -> None:
    bed = ConsumerBed()
    members = classic_group(bed, 1)
    bed.consumer_config = replace(bed.consumer_config, migration_policy=MigrationPolicy.DOWNGRADE)
    bed.crash()
    client = Client(bed, "new", "orders", group_id=GROUP)
    heard = bed.say(client.first())
    assert heard.code is ErrorCode.GROUP_ID_NOT_FOUND
    bed.consumer_config = replace(bed.consumer_config, migration_policy=MigrationPolicy.UPGRADE)
    bed.crash()
    all_beat(members, client)
    client.leave()
    assert isinstance(bed.shard.groups.get(GROUP), ConsumerGroup)
    all_beat(members)
    assert read_by(members) == [0, 1, 2, 3]


def test_what_an_assignor_of_somebodys_own_told_its_members_would_be_lost() -> None:
    bed = ConsumerBed()
    (member,) = classic_group(bed, 1)
    group = bed.shard.groups.find_classic(GROUP)
    group.members[member.member_id].assignment = write_assignment({}, 1)[:-4] + b"\0\0\0\1!"
    heard = bed.say(Client(bed, "new", "orders", group_id=GROUP).first())
    assert heard.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert heard.message is not None and "custom assignor" in heard.message


def test_who_goes_over_does_not_wait_for_the_interval() -> None:
    bed = ConsumerBed()
    bed.divide_once_in(15_000)
    members = classic_group(bed, 1)
    client = Client(bed, "new", "orders", group_id=GROUP)
    client.beat()
    assert (bed.consumers_of(GROUP).epoch, bed.consumers_of(GROUP).assignment_epoch) == (2, 2)
    all_beat(members, client)
    assert (members[0].size, client.size) == (2, 2)


@pytest.mark.interpreted
def test_a_group_whose_members_name_too_many_topics_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused with the first member that names too many: the others are not read."""
    bed = ConsumerBed()
    classic_group(bed, 4)
    read = []

    def read_one(data: bytes) -> EmbeddedAssignment:
        read.append(data)
        return read_assignment(data)

    monkeypatch.setattr(subscribed_names, "MAX_SUBSCRIBED_BYTES", 10, raising=False)
    monkeypatch.setattr(migration, "read_assignment", read_one)
    refused = bed.say(Client(bed, "new", "orders", group_id=GROUP).first())
    assert refused.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert len(read) == 1
    assert isinstance(bed.shard.groups.get(GROUP), ClassicGroup)


def test_a_group_of_another_protocol_type_does_not_go_over() -> None:
    bed = ConsumerBed()
    token = bed.join(protocol_type="connect", version=3)
    bed.advance(7_000)
    bed.joined(token)
    heard = bed.say(Client(bed, "new", "orders", group_id=GROUP).first())
    assert heard.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_what_consumers_say_is_read_in_every_version() -> None:
    first = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"
    assert read_subscription(first) == Subscription(version=0, topics=("t",))
    third = b"\0\3\0\0\0\1\0\1t\0\0\0\1x\0\0\0\1\0\1t\0\0\0\2\0\0\0\1\0\0\0\2\0\0\0\7\0\1r"
    owned = {"t": frozenset({1, 2})}
    assert read_subscription(third) == Subscription(version=3, topics=("t",), owned=owned, rack_id="r")
    assert read_assignment(write_assignment(owned, 3)).partitions == owned
    assert read_assignment(b"") == EmbeddedAssignment()
