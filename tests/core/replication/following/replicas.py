"""Three brokers with one partition: real logs in memory, a network that loses and delays, leaders that change.

All three are in sync all the time, so what all have is committed: it may never leave any of them.
"""

from random import Random

from kafkad.core.errors import ErrorCode
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.records.batch import read_header
from kafkad.core.quotas.replication_quota import ReplicationQuota
from kafkad.core.replication.following.followed_partition import FollowedPartition
from kafkad.core.replication.following.following_log import (
    append_fetched,
    follow_log_start,
    planned_truncation,
    result_of,
    truncate,
)
from kafkad.core.replication.following.leader_fetcher import LATEST, LeaderFetcher
from kafkad.core.replication.following.requests import (
    Fetched,
    FollowerFetch,
    FollowKind,
    FollowOrder,
    OffsetListed,
    OffsetQuery,
    PartitionFetched,
    PartitionToFetch,
)
from kafkad.core.types import NO_LEADER_EPOCH, TopicPartition
from tests.core.log.batches import NOW, append, batch, load
from tests.core.log.fake_store import FakeStore

TOPIC = b"t" * 16
ID = (TOPIC, 0)
NAME = TopicPartition("topic", 0)
BACKOFF_MS = 100
NO_QUOTA = ReplicationQuota(num_samples=11, window_ms=1_000, now_ms=0)
BATCHES_AT_ONCE = 3


def batches_from(log: PartitionLog, offset: int) -> list[tuple[int, bytes]]:
    """(base offset, bytes) of the batches that end above `offset`."""
    found = []
    for segment in log.segments:
        content = memoryview(segment.log.read_at(segment.size, 0))
        at = 0
        while at < len(content):
            header = read_header(content, at)
            if header.last_offset >= offset:
                found.append((header.base_offset, bytes(content[at : at + header.size])))
            at += header.size
    return found


class Leader:
    """What Apache Kafka's leader answers to a follower, from a log; sessions included."""

    def __init__(self, log: PartitionLog, epoch: int) -> None:
        self.log = log
        self.epoch = epoch
        self.session = 0
        self.expected_epoch = 0
        self.row: PartitionToFetch | None = None
        self.high_watermark = log.high_watermark.offset
        self.memory = b""

    def fetch(self, wanted: FollowerFetch, session_id: int) -> Fetched:
        if wanted.session_epoch == 0:
            self.session, self.expected_epoch, self.row = session_id, 1, None
        elif wanted.session_id != self.session:
            return Fetched(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, [])
        elif wanted.session_epoch != self.expected_epoch:
            return Fetched(ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0, [])
        else:
            self.expected_epoch += 1
        for row in wanted.forgotten:
            assert self.row is not None and row.id == self.row.id
            self.row = None
        for row in wanted.partitions:
            self.row = row
        self.memory = b""
        return Fetched(0, self.session, [] if self.row is None else [self.response(self.row)])

    def end_of(self, epoch: int) -> tuple[int, int]:
        return self.log.epochs.end_offset_as_leader(epoch, self.log.log_end_offset, self.epoch)

    def response(self, row: PartitionToFetch) -> PartitionFetched:
        error, diverging = self.check(row.current_leader_epoch), (NO_LEADER_EPOCH, -1)
        if not error:
            if row.last_fetched_epoch != NO_LEADER_EPOCH:
                known, end = self.end_of(row.last_fetched_epoch)
                if known == -1:
                    error = ErrorCode.OFFSET_OUT_OF_RANGE
                elif known < row.last_fetched_epoch or end < row.fetch_offset:
                    diverging = (known, end)
            if not error and diverging[0] == NO_LEADER_EPOCH:
                if not self.log.log_start_offset <= row.fetch_offset <= self.log.log_end_offset:
                    error = ErrorCode.OFFSET_OUT_OF_RANGE
                else:
                    rows = batches_from(self.log, row.fetch_offset)[:BATCHES_AT_ONCE]
                    self.memory = b"".join(each for _, each in rows)
        return PartitionFetched(
            *(TOPIC, 0, error, self.high_watermark, self.log.log_start_offset),
            *(*diverging, 0, len(self.memory)),
        )

    def check(self, epoch: int) -> int:
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH if epoch > self.epoch else ErrorCode.NONE

    def offsets(self, rows: list[OffsetQuery]) -> list[OffsetListed]:
        (row,) = rows
        error = self.check(row.current_leader_epoch)
        offset = self.log.log_end_offset if row.timestamp == LATEST else self.log.log_start_offset
        return [OffsetListed("topic", 0, error, -1 if error else offset)]


class Replica:
    """One broker: its log, and its fetcher while another one leads."""

    def __init__(self) -> None:
        self.store = FakeStore()
        self.log = load(self.store)
        self.epoch = -1
        self.fetcher = LeaderFetcher(BACKOFF_MS, NO_QUOTA)

    def follow(self, epoch: int) -> None:
        self.epoch = epoch
        self.fetcher = LeaderFetcher(BACKOFF_MS, NO_QUOTA)
        self.fetcher.follow(FollowedPartition(ID, NAME, slot=0, short_id=1, owner=0, leader_epoch=epoch))

    def perform(self, order: FollowOrder, memory: bytes, now_ms: int) -> None:
        """As the worker does: void in another leader epoch."""
        if order.leader_epoch != self.epoch:
            return
        error = 0
        if order.kind == FollowKind.APPEND:
            records = memoryview(bytearray(memory[order.records_at : order.records_at + order.length]))
            error = append_fetched(self.log, order, records, NOW)
            follow_log_start(self.log, order)
        elif order.kind != FollowKind.DESCRIBE:
            truncate(self.log, planned_truncation(self.log, order), NOW)
        self.fetcher.order_completed(result_of(self.log, order, error), now_ms)

    def crash(self) -> None:
        """kill -9: everything written stays; the high watermark is that of an old checkpoint."""
        self.store.kill()
        self.log = load(self.store, was_clean=False)


class Cluster:
    """A seed decides what happens next."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.replicas = [Replica() for _ in range(3)]
        self.now_ms = 0
        self.epoch = -1
        self.sessions = 0
        self.committed: dict[int, bytes] = {}
        self.ends: dict[int, int] = {}
        self.leader = 0
        self.serving = Leader(self.replicas[0].log, -1)
        self.elect(0)

    def elect(self, number: int) -> None:
        """A new leader in a new epoch; the others hear of it at once, later, or after the next one."""
        self.epoch += self.random.randint(1, 2)
        self.leader = number
        replica = self.replicas[number]
        replica.epoch = self.epoch
        replica.fetcher = LeaderFetcher(BACKOFF_MS, NO_QUOTA)
        replica.log.assign_epoch(self.epoch, replica.log.log_end_offset)
        self.serving = Leader(replica.log, self.epoch)
        self.ends = {}
        for other, follower in enumerate(self.replicas):
            if other != number and self.random.random() < 0.7:
                follower.follow(self.epoch)

    def step(self) -> None:
        self.now_ms += self.random.randint(0, 60)
        chance = self.random.random()
        if chance < 0.05:
            self.elect(self.random.randrange(3))
        elif chance < 0.09:
            self.crash(self.random.randrange(3))
        elif chance < 0.12:
            follower = self.random.choice([each for each in self.replicas if each.epoch < self.epoch] or [None])
            if follower is not None:
                follower.follow(self.epoch)
        elif chance < 0.4:
            append(self.serving.log, batch(self.random.randint(1, 3)), epoch=self.epoch)
        else:
            others = [each for each in range(3) if each != self.leader]
            self.exchange(self.random.choice(others), loses=self.random.random() < 0.1)
        self.check()

    def crash(self, number: int) -> None:
        replica = self.replicas[number]
        replica.crash()
        if number == self.leader:
            self.elect(self.random.choice([each for each in range(3) if each != number]))
        if replica.epoch >= 0:
            replica.follow(self.epoch)

    def exchange(self, number: int, *, loses: bool = False) -> None:
        """One request of a follower to the present leader, and what follows from the answer."""
        replica, leader = self.replicas[number], self.serving
        for _, order in replica.fetcher.describe_orders(self.now_ms):
            replica.perform(order, b"", self.now_ms)
        wanted = replica.fetcher.next_request(self.now_ms)
        if wanted is None:
            return
        if isinstance(wanted, FollowerFetch):
            self.sessions += 1
            response = leader.fetch(wanted, self.sessions if self.random.random() < 0.9 else 0)
            if not response.error and not response.partitions[0].error and leader.row is not None:
                self.progressed(number, leader, leader.row)
            orders = [] if loses else replica.fetcher.fetched(response, self.now_ms)
        else:
            orders = [] if loses else replica.fetcher.offsets_listed(leader.offsets(wanted), self.now_ms)
        if loses:
            replica.fetcher.failed(self.now_ms)
        for _, order in orders:
            replica.perform(order, leader.memory, self.now_ms)

    def progressed(self, number: int, leader: Leader, row: PartitionToFetch) -> None:
        """A fetch says what the follower has; what all have is committed."""
        known, end = leader.end_of(row.last_fetched_epoch)
        if row.last_fetched_epoch == NO_LEADER_EPOCH or (known == row.last_fetched_epoch and end >= row.fetch_offset):
            self.ends[number] = row.fetch_offset
        if len(self.ends) == 2:
            committed = min(leader.log.log_end_offset, *self.ends.values())
            leader.high_watermark = max(leader.high_watermark, leader.log.advance_high_watermark(committed).offset)
            for base, content in batches_from(leader.log, 0):
                if base < committed:
                    self.committed.setdefault(base, content)

    def check(self) -> None:
        for replica in self.replicas:
            has = dict(batches_from(replica.log, 0))
            for base, content in self.committed.items():
                assert has.get(base) == content, f"a committed batch at {base} is lost"

    def settle(self) -> None:
        """No more changes: all logs become the same."""
        for replica in self.replicas:
            if replica.epoch != self.epoch:
                replica.follow(self.epoch)
        for _ in range(400):
            self.now_ms += BACKOFF_MS
            for number in range(3):
                if number != self.leader:
                    self.exchange(number)
            self.check()
            if len({tuple(batches_from(each.log, 0)) for each in self.replicas}) == 1:
                break
        contents = [batches_from(each.log, 0) for each in self.replicas]
        assert contents[0] == contents[1] == contents[2], "the logs are not equal"
