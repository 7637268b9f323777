"""Random runs of committed offsets, compared with a naive model: no committed offset is lost, no aborted one is seen.

Plain and transactional commits of several producers, markers, deletions, deleted topics, time and crashes.
"""

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkad.core.coordinator.runtime import RETRY_MS
from kafkad.core.coordinator.shard import Caller, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.offsets.messages import FetchedPartition, GroupFetch, OffsetDelete, TopicFetch
from kafkad.core.groups.records import GroupRecord
from tests.core.coordinator.memory_log import Refused
from tests.core.groups.offsets_bed import FewTopics, in_transaction, offsets_bed, one, plain

_RETENTION_MS, _CHECK_MS = 20_000, 5_000
_TICK_MS = 500
"""Timers are not exact."""
_TOPICS = FewTopics().by_name
_KEYS = [("g", "orders", 0), ("g", "payments", 1), ("h", "orders", 0)]

Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class _Entry:
    """`number` counts the commits: of two the later one counts."""

    number: int
    offset: int
    committed_ms: int


class OffsetLives(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.bed = offsets_bed(offsets_retention_ms=_RETENTION_MS, offsets_retention_check_interval_ms=_CHECK_MS)
        self.visible: dict[Key, _Entry] = {}
        self.pending: dict[int, dict[Key, _Entry]] = {}
        self.count = 0
        self.may_go_since: dict[Key, int] = {}
        """Since when expiry has had nothing against removing it."""

    @rule(key=st.sampled_from(_KEYS))
    def commit(self, key: Key) -> None:
        group, topic, partition = key
        entry = self._next()
        request = plain(group, one(topic, partition, entry.offset))
        token = self.bed.ask(lambda caller: self.bed.shard.offsets.commit(request, caller, self.bed.moment), version=9)
        assert self.bed.answers[token].topics[0].partitions == [(partition, ErrorCode.NONE)]
        self._show(key, entry)

    @rule(key=st.sampled_from(_KEYS))
    def commit_that_the_log_refuses(self, key: Key) -> None:
        group, topic, partition = key
        request = plain(group, one(topic, partition, 7))
        self.bed.log.refusal = ErrorCode.KAFKA_STORAGE_ERROR
        token = self.bed.ask(lambda caller: self.bed.shard.offsets.commit(request, caller, self.bed.moment), version=9)
        self.bed.log.refusal = None
        assert self.bed.answers[token] == Refused(ErrorCode.NOT_COORDINATOR)

    @rule(key=st.sampled_from(_KEYS), producer=st.integers(1, 2))
    def commit_in_transaction(self, key: Key, producer: int) -> None:
        group, topic, partition = key
        entry = self._next()
        request = in_transaction(group, producer, one(topic, partition, entry.offset))
        token = self.bed.ask(
            lambda caller: self.bed.shard.offsets.txn_commit(request, caller, self.bed.moment), version=4
        )
        assert self.bed.answers[token].topics[0].partitions == [(partition, ErrorCode.NONE)]
        self.pending.setdefault(producer, {})[key] = entry

    @rule(producer=st.integers(1, 2), is_commit=st.booleans())
    def end_transaction(self, producer: int, is_commit: bool) -> None:
        self.bed.write_marker(producer, 0, is_commit=is_commit)
        for key, entry in self.pending.pop(producer, {}).items():
            known = self.visible.get(key)
            if is_commit and (known is None or known.number < entry.number):
                self._show(key, entry)

    @rule(key=st.sampled_from(_KEYS))
    def delete(self, key: Key) -> None:
        group, topic, partition = key
        request = OffsetDelete(group, [(topic, [partition])])
        token = self.bed.ask(lambda caller: self.bed.shard.offsets.delete(request, caller))
        if self.bed.answers[token].code is ErrorCode.NONE:
            self._forget(key)
        else:
            assert all(known[0] != group for known in self.visible)

    @rule(group=st.sampled_from(["g", "h"]))
    def delete_group(self, group: str) -> None:
        self.bed.perform(Outcome(records=self.bed.shard.offsets.removal_records(group)))
        for key in _KEYS:
            if key[0] == group:
                self._forget(key)

    @rule(topic=st.sampled_from(sorted(_TOPICS)), is_refused=st.booleans())
    def delete_topic(self, topic: str, is_refused: bool) -> None:
        self.bed.perform(self.bed.shard.offsets.topics_deleted({topic: {_TOPICS[topic][0]}}, self.bed.moment))
        if is_refused:
            self.bed.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
            self.bed.advance(1)
            self.bed.log.refusal = None
        self.bed.advance(RETRY_MS if is_refused else 0)
        for key in _KEYS:
            if key[1] == topic:
                self._forget(key)

    @rule(seconds=st.sampled_from([1, 4, 9, 30]))
    def wait(self, seconds: int) -> None:
        self.bed.advance(seconds * 1000)

    @rule()
    def crash(self) -> None:
        self.bed.crash()
        # The time to the next look begins anew.
        now_ms = self.bed.moment.wall_ms
        self.may_go_since = {key: max(since_ms, now_ms) for key, since_ms in self.may_go_since.items()}

    @invariant()
    def everybody_sees_what_is_committed(self) -> None:
        now_ms = self.bed.moment.wall_ms
        for key in _KEYS:
            found = self._fetch(key, stable=False)
            entry = self.visible.get(key)
            if entry is not None and found.offset == -1:
                assert now_ms - entry.committed_ms >= _RETENTION_MS, f"{key} is lost"
                del self.visible[key]
                entry = None
            assert found == (FetchedPartition(key[2]) if entry is None else FetchedPartition(key[2], entry.offset))
            is_held = any(key in held for held in self.pending.values())
            stable = self._fetch(key, stable=True)
            assert stable == (FetchedPartition(key[2], code=ErrorCode.UNSTABLE_OFFSET_COMMIT) if is_held else found)
            self._check_expiry(key, entry, is_held=is_held)
        assert self.bed.shard.offsets.count == len(self.visible)

    def _check_expiry(self, key: Key, entry: _Entry | None, *, is_held: bool) -> None:
        now_ms = self.bed.moment.wall_ms
        if entry is None or is_held:
            self.may_go_since.pop(key, None)
            return
        since_ms = self.may_go_since.setdefault(key, max(now_ms, entry.committed_ms + _RETENTION_MS))
        assert now_ms - since_ms <= _CHECK_MS + _TICK_MS, f"{key} is kept too long"

    def _next(self) -> _Entry:
        self.count += 1
        return _Entry(self.count, 1000 + self.count, self.bed.moment.wall_ms)

    def _show(self, key: Key, entry: _Entry) -> None:
        self.visible[key] = entry
        self.may_go_since.pop(key, None)

    def _forget(self, key: Key) -> None:
        self.visible.pop(key, None)
        for held in self.pending.values():
            held.pop(key, None)

    def _fetch(self, key: Key, *, stable: bool) -> FetchedPartition:
        group, topic, partition = key

        def ask(caller: Caller) -> Outcome[GroupRecord]:
            wanted = [GroupFetch(group, [TopicFetch(topic, (partition,))])]
            outcome: Outcome[GroupRecord] = self.bed.shard.offsets.fetch(wanted, caller, require_stable=stable)
            return outcome

        found: FetchedPartition = self.bed.answers[self.bed.ask(ask, version=9)].groups[0].topics[0].partitions[0]
        return found


TestOffsetLives = OffsetLives.TestCase
