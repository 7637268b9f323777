"""The counters of a membership are compared with a full count after random changes of its members."""

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from kafkad.core.groups.classic.member import ClassicMember, Protocols
from kafkad.core.groups.classic.membership import ClassicMembership

PROTOCOLS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=4).map(
    lambda names: tuple((name, name.encode()) for name in names)
)
TOKENS = st.none() | st.integers(0, 100)


class MembershipMachine(RuleBasedStateMachine):
    """Members come, say something else, come back under another id, and go."""

    ids = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        self.membership = ClassicMembership()
        self.made = 0

    def new_id(self) -> str:
        self.made += 1
        return f"m{self.made}"

    @rule(target=ids, protocols=PROTOCOLS, token=TOKENS, is_static=st.booleans())
    def add(self, protocols: Protocols, token: int | None, is_static: bool) -> str:
        member_id = self.new_id()
        member = ClassicMember(
            member_id=member_id,
            instance_id=f"i{member_id}" if is_static else None,
            client_id="c",
            client_host="/h",
            rebalance_timeout_ms=self.made * 7 % 5,
            session_timeout_ms=1,
            protocols=protocols,
        )
        self.membership.add(member, "consumer", token)
        return member_id

    @rule(member_id=ids, protocols=PROTOCOLS, token=TOKENS, timeout_ms=st.integers(0, 9))
    def update(self, member_id: str, protocols: Protocols, token: int | None, timeout_ms: int) -> None:
        member = self.membership.members[member_id]
        self.membership.update(
            member, protocols, rebalance_timeout_ms=timeout_ms, session_timeout_ms=1, join_token=token
        )

    @rule(member_id=ids)
    def answer(self, member_id: str) -> None:
        member = self.membership.members[member_id]
        token = member.join_token
        assert self.membership.take_join_token(member) == token
        assert member.join_token is None

    @rule(target=ids, member_id=consumes(ids))
    def come_back(self, member_id: str) -> str:
        member = self.membership.members[member_id]
        if member.instance_id is None:
            return member_id
        was_leader = self.membership.leader == member_id
        self.membership.take_join_token(member)
        new_id = self.new_id()
        assert self.membership.replace_static(member_id, new_id).protocols == member.protocols
        assert (self.membership.leader == new_id) == was_leader
        return new_id

    @rule(member_id=consumes(ids))
    def remove(self, member_id: str) -> None:
        removed = self.membership.remove(member_id)
        assert removed is not None and removed.member_id == member_id
        assert self.membership.remove(member_id) is None

    @precondition(lambda self: self.membership.members)
    @rule()
    def elect(self) -> None:
        joined = {each.member_id for each in self.membership.members.values() if each.join_token is not None}
        before = self.membership.leader
        assert self.membership.elect_joined_leader() == bool(joined)
        assert self.membership.leader == before if before in joined or not joined else self.membership.leader in joined

    @invariant()
    def sums_are_right(self) -> None:
        membership = self.membership
        members = list(membership.members.values())
        joined = [each for each in members if each.join_token is not None]
        assert membership.awaiting_join == len(joined)
        assert membership.have_all_joined == (len(joined) == len(members))
        assert [each.member_id for each in membership.not_rejoined()] == [
            each.member_id for each in members if each not in joined
        ]
        assert membership.rebalance_timeout_ms == max((each.rebalance_timeout_ms for each in members), default=0)
        assert (membership.leader in membership.members) if members else membership.leader is None
        for each in members:
            if each.instance_id is not None:
                assert membership.static_member_id(each.instance_id) == each.member_id

    @invariant()
    def common_protocols_are_right(self) -> None:
        members = list(self.membership.members.values())
        if not members:
            return
        common = set("abcd").intersection(*({name for name, _ in each.protocols} for each in members))
        for name in "abcd":
            assert self.membership.have_common_protocol([name]) == (name in common)
        if common:
            chosen = self.membership.select_protocol()
            votes = [next(name for name, _ in each.protocols if name in common) for each in members]
            assert votes.count(chosen) == max(map(votes.count, votes))


TestMembership = MembershipMachine.TestCase
