"""Members of groups that read a compacted log while segments are replaced: of the log, and of their coordinator's log.

A member commits what it has read, while a swap is under way, and goes on from what is committed after it has joined
again: what it read since its last commit is read twice.
"""

from abc import ABC, abstractmethod
from datetime import timedelta
from random import Random
from typing import Any

from kafkad.core.errors import ErrorCode
from kafkad.wire.api_table import (
    CONSUMER_GROUP_HEARTBEAT,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from tests.handlers.kio_calls import KioApi
from tests.processes.pieces import TOPIC, Pieces
from tests.processes.worker.swap_readers import Reader, Written
from tests.tools.raw_requests import framed

_JOIN, _SYNC = KioApi("join_group", 0), KioApi("sync_group", 0)
_HEARTBEAT, _LEAVE = KioApi("heartbeat", 0), KioApi("leave_group", 0)
_COMMIT, _COMMITTED = KioApi("offset_commit", 9), KioApi("offset_fetch", 9)
_CONSUMER_HEARTBEAT = KioApi("consumer_group_heartbeat", 0)
_COMMIT_CHANCE, _LOSS_CHANCE = 0.7, 0.1
LONG = timedelta(minutes=10)


class Member(Reader, ABC):
    """Commits now and then; its group is that of nobody else."""

    def __init__(self, pieces: Pieces, written: Written, group: str, random: Random) -> None:
        super().__init__(pieces.connect(), written)
        self.group = group
        self.coordinator = pieces.connect()
        self.member_id = ""
        self.epoch = -1
        """Or generation."""
        self.commits = self.losses = 0
        self._random = random
        self._committed = 0
        self._seen_when_committed: dict[str, int] = {}
        self._is_committing = False
        self.join()
        self._commit()
        self._hear_commit()

    @abstractmethod
    def join(self) -> None: ...

    @abstractmethod
    def leave(self) -> None: ...

    @abstractmethod
    def beat(self) -> None: ...

    def begin(self) -> None:
        """What it has read so far is being committed while it goes on to read."""
        super().begin()
        if self._random.random() < _COMMIT_CHANCE:
            self._commit()

    def end(self) -> None:
        super().end()
        if self._is_committing:
            self._hear_commit()
        if self._random.random() < _LOSS_CHANCE:
            self.leave()
            self.join()
            self.go_on_from_committed()
        self.beat()

    def go_on_from_committed(self) -> None:
        """What is committed is what was acknowledged last."""
        assert self.committed() == self._committed
        self.offset, self.seen = self._committed, dict(self._seen_when_committed)
        self.losses += 1

    def committed(self) -> int:
        topic = _COMMITTED.part("OffsetFetchRequestTopics", name=TOPIC, partition_indexes=(0,))
        group = _COMMITTED.part(
            "OffsetFetchRequestGroup",
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            topics=(topic,),
        )
        reply = self.ask(OFFSET_FETCH, _COMMITTED, groups=(group,), require_stable=True)
        ((row,),) = (topic.partitions for topic in reply.groups[0].topics)
        assert (int(reply.groups[0].error_code), int(row.error_code)) == (0, 0)
        return int(row.committed_offset)

    def _commit(self) -> None:
        self._committed, self._seen_when_committed = self.offset, dict(self.seen)
        row = _COMMIT.part(
            "OffsetCommitRequestPartition", partition_index=0, committed_offset=self.offset, committed_metadata=""
        )
        topic = _COMMIT.part("OffsetCommitRequestTopic", name=TOPIC, partitions=(row,))
        request = _COMMIT.request(
            group_id=self.group,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member_id,
            topics=(topic,),
        )
        self.coordinator.send(framed(OFFSET_COMMIT, _COMMIT.version, b"\x00" + bytes(request)))
        self._is_committing = True

    def _hear_commit(self) -> None:
        ((row,),) = (topic.partitions for topic in _COMMIT.read(self.coordinator.reply()[1:]).topics)
        assert int(row.error_code) == ErrorCode.NONE
        self._is_committing = False
        self.commits += 1

    def ask(self, key: int, api: KioApi, **values: Any) -> Any:
        is_flexible = api in (_COMMITTED, _CONSUMER_HEARTBEAT)
        request = bytes(api.request(**values))
        reply = self.coordinator.ask(framed(key, api.version, b"\x00" + request if is_flexible else request))
        return api.read(reply[1:] if is_flexible else reply)


class ClassicMember(Member):
    """Joins, syncs, beats and leaves."""

    def join(self) -> None:
        protocol = _JOIN.part("JoinGroupRequestProtocol", name="range", metadata=b"m")
        joined = self.ask(
            JOIN_GROUP,
            _JOIN,
            group_id=self.group,
            session_timeout=LONG,
            member_id="",
            protocol_type="consumer",
            protocols=(protocol,),
        )
        assert int(joined.error_code) == ErrorCode.NONE
        assert joined.generation_id > self.epoch
        self.member_id, self.epoch = joined.member_id, joined.generation_id
        mine = _SYNC.part("SyncGroupRequestAssignment", member_id=self.member_id, assignment=b"mine")
        synced = self.ask(
            SYNC_GROUP,
            _SYNC,
            group_id=self.group,
            generation_id=self.epoch,
            member_id=self.member_id,
            assignments=(mine,),
        )
        assert (int(synced.error_code), synced.assignment) == (0, b"mine")

    def beat(self) -> None:
        beat = self.ask(HEARTBEAT, _HEARTBEAT, group_id=self.group, generation_id=self.epoch, member_id=self.member_id)
        assert int(beat.error_code) == ErrorCode.NONE

    def leave(self) -> None:
        left = self.ask(LEAVE_GROUP, _LEAVE, group_id=self.group, member_id=self.member_id)
        assert int(left.error_code) == ErrorCode.NONE


class ConsumerMember(Member):
    """Of a group of KIP-848: one heartbeat does it all."""

    def join(self) -> None:
        joined = self._heartbeat(0, topics=(TOPIC,), owned=())
        self.member_id, self.epoch = joined.member_id, joined.member_epoch
        assert 0 in joined.assignment.topic_partitions[0].partitions

    def beat(self) -> None:
        assert self._heartbeat(self.epoch).member_epoch == self.epoch

    def leave(self) -> None:
        assert self._heartbeat(-1).member_epoch == -1

    def _heartbeat(self, epoch: int, topics: tuple[str, ...] | None = None, owned: tuple[()] | None = None) -> Any:
        beat = self.ask(
            CONSUMER_GROUP_HEARTBEAT,
            _CONSUMER_HEARTBEAT,
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=epoch,
            rebalance_timeout=LONG if topics else timedelta(milliseconds=-1),
            subscribed_topic_names=topics,
            topic_partitions=owned,
        )
        assert int(beat.error_code) == ErrorCode.NONE, beat.error_message
        return beat
