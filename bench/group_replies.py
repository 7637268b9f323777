"""Decode some fields of the replies of coordinators."""

from dataclasses import dataclass

from bench.replies import ErrorReply, Reader

MEMBER_ID_REQUIRED = 79
CONCURRENT_TRANSACTIONS = 51


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinReply:
    """A JoinGroup v9 reply; only the leader gets `members`."""

    error: int
    generation: int
    leader: str
    member: str
    members: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReply:
    """A ConsumerGroupHeartbeat v1 reply; `assigned` by topic id, None without a change."""

    epoch: int
    assigned: dict[bytes, list[int]] | None


def _checked(error: int, what: str) -> None:
    if error:
        raise ErrorReply(f"{what}: error code {error}")


def is_coordinator_found(frame: bytes) -> bool:
    """Whether a FindCoordinator v4 reply has a coordinator for its only key."""
    reader = Reader(frame)
    reader.skip(4)
    assert len(reader.items()) == 1
    reader.text()
    reader.skip(4)
    reader.text()
    reader.skip(4)
    return reader.number("h") == 0


def read_join(frame: bytes | memoryview) -> JoinReply:
    reader = Reader(frame)
    reader.skip(4)
    error, generation = reader.number("h"), reader.number("i")
    reader.text()
    reader.text()
    leader = reader.text() or ""
    reader.skip(1)
    member = reader.text() or ""
    if error not in (0, MEMBER_ID_REQUIRED):
        raise ErrorReply(f"JoinGroup: error code {error}")
    members = [_member(reader) for _ in reader.items()]
    return JoinReply(error=error, generation=generation, leader=leader, member=member, members=members)


def _member(reader: Reader) -> str:
    member = reader.text() or ""
    reader.text()
    reader.skip(reader.uvarint() - 1)
    reader.tags()
    return member


def check_sync(frame: bytes | memoryview) -> int:
    """The size of the assignment. Raises `ErrorReply`."""
    reader = Reader(frame)
    reader.skip(4)
    _checked(reader.number("h"), "SyncGroup")
    reader.text()
    reader.text()
    return reader.uvarint() - 1


def read_heartbeat(frame: bytes | memoryview) -> HeartbeatReply:
    reader = Reader(frame)
    reader.skip(4)
    error = reader.number("h")
    _checked(error, f"ConsumerGroupHeartbeat: {reader.text()}")
    reader.text()
    epoch = reader.number("i")
    reader.skip(4)
    if reader.number("b") < 0:
        return HeartbeatReply(epoch=epoch, assigned=None)
    assigned: dict[bytes, list[int]] = {}
    for _ in reader.items():
        topic_id = reader.uuid()
        assigned[topic_id] = [reader.number("i") for _ in reader.items()]
        reader.tags()
    return HeartbeatReply(epoch=epoch, assigned=assigned)


def check_commit(frame: bytes | memoryview) -> None:
    """Raises `ErrorReply` if a partition of an OffsetCommit v8 reply has an error."""
    reader = Reader(frame)
    reader.skip(4)
    for _ in reader.items():
        topic = reader.text()
        for _ in reader.items():
            partition = reader.number("i")
            _checked(reader.number("h"), f"OffsetCommit of {topic}-{partition}")
            reader.tags()
        reader.tags()


def read_producer(frame: bytes) -> tuple[int, int]:
    """Producer id and epoch of an InitProducerId v4 reply."""
    reader = Reader(frame)
    reader.skip(4)
    _checked(reader.number("h"), "InitProducerId")
    return reader.number("q"), reader.number("h")


def added_partition(frame: bytes) -> bool:
    """False if an AddPartitionsToTxn v3 reply has CONCURRENT_TRANSACTIONS."""
    reader = Reader(frame)
    reader.skip(4)
    assert len(reader.items()) == 1
    topic = reader.text()
    assert len(reader.items()) == 1
    reader.skip(4)
    error = reader.number("h")
    if error != CONCURRENT_TRANSACTIONS:
        _checked(error, f"AddPartitionsToTxn of {topic}")
    return error == 0


def check_end(frame: bytes) -> None:
    """Raises `ErrorReply` if an EndTxn v3 reply has an error."""
    reader = Reader(frame)
    reader.skip(4)
    _checked(reader.number("h"), "EndTxn")
