"""Requests of groups as bytes, for a broker in pieces: the first versions, packed by kio."""

from datetime import timedelta
from typing import Any

from tests.handlers.kio_calls import KioApi
from tests.processes.pieces import Client, Pieces
from tests.tools.raw_requests import framed

OFFSETS = "__consumer_offsets"
HEARTBEAT, JOIN, COMMIT, LIST, OFFSET_FETCH, DESCRIBE = 12, 11, 8, 16, 9, 15
_APIS = {
    HEARTBEAT: KioApi("heartbeat", 0),
    JOIN: KioApi("join_group", 0),
    COMMIT: KioApi("offset_commit", 2),
    LIST: KioApi("list_groups", 0),
    OFFSET_FETCH: KioApi("offset_fetch", 1),
    DESCRIBE: KioApi("describe_groups", 0),
}


def with_offsets_topic(pieces: Pieces, partitions: int = 2) -> None:
    """The internal topic is there and its shards are loaded."""
    pieces.create_topic(OFFSETS, partitions)
    pieces.run_until_online(OFFSETS)
    pieces.run_until_known()
    pieces.settle()


def asked(key: int, **values: Any) -> bytes:
    api = _APIS[key]
    return framed(key, api.version, bytes(api.request(**values)))


def read(key: int, body: bytes) -> Any:
    return _APIS[key].read(body)


def join(group: str = "g", member: str = "", *, metadata: bytes = b"m", session_s: int = 10) -> bytes:
    protocol = _APIS[JOIN].part("JoinGroupRequestProtocol", name="range", metadata=metadata)
    return asked(
        JOIN,
        group_id=group,
        session_timeout=timedelta(seconds=session_s),
        member_id=member,
        protocol_type="consumer",
        protocols=(protocol,),
    )


def commit(group: str = "g", offset: int = 7, *, topic: str = "t", metadata: str = "", partitions: int = 1) -> bytes:
    api = _APIS[COMMIT]
    rows = tuple(
        api.part(
            "OffsetCommitRequestPartition",
            partition_index=partition,
            committed_offset=offset,
            committed_metadata=metadata,
        )
        for partition in range(partitions)
    )
    return asked(
        COMMIT,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        retention_time=timedelta(milliseconds=-1),
        topics=(api.part("OffsetCommitRequestTopic", name=topic, partitions=rows),),
    )


def committed_code(client: Client, group: str = "g", offset: int = 7) -> int:
    """What a commit is answered with."""
    reply = read(COMMIT, client.ask(commit(group, offset)))
    ((row,),) = (topic.partitions for topic in reply.topics)
    return int(row.error_code)


def committed(client: Client, group: str = "g") -> tuple[int, int]:
    """(error code, offset) of partition 0 of topic "t"."""
    topic = _APIS[OFFSET_FETCH].part("OffsetFetchRequestTopic", name="t", partition_indexes=(0,))
    reply = read(OFFSET_FETCH, client.ask(asked(OFFSET_FETCH, group_id=group, topics=(topic,))))
    ((row,),) = (topic.partitions for topic in reply.topics)
    return int(row.error_code), int(row.committed_offset)
