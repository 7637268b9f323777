"""TxnOffsetCommit, versions 0 to 5: offsets that are committed with a producer's transaction."""

from typing import Any

from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.offsets.messages import (
    CommitReply,
    PartitionCommit,
    TopicCommit,
    TxnOffsetCommit,
)
from kafkad.core.groups.records import GroupRecord
from kafkad.core.types import NO_GENERATION, NO_LEADER_EPOCH, NO_TOPIC_ID
from kafkad.handlers.coordinators.requests.offset_shard import OffsetShard
from kafkad.wire.messages.offset_replies import pack_txn_commit

_LEADER_EPOCH_FROM = 2
_MEMBER_FROM = 3
_LOADING_FROM = 2
"""Producers before Kafka 2.0 treat COORDINATOR_LOAD_IN_PROGRESS as fatal."""


def handle(request: Any, caller: Caller, shard: OffsetShard, moment: Moment) -> Outcome[GroupRecord]:
    has_member = caller.version >= _MEMBER_FROM
    commit = TxnOffsetCommit(
        group_id=request.group_id,
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        topics=[_topic(each, caller.version) for each in request.topics],
        member_id=request.member_id if has_member else "",
        instance_id=request.group_instance_id if has_member else None,
        generation=request.generation_id if has_member else NO_GENERATION,
    )
    return shard.offsets.txn_commit(commit, caller, moment)


def pack(reply: CommitReply, version: int) -> bytes:
    return pack_txn_commit(version, reply.topics)


def reject(request: Any, version: int, code: ErrorCode) -> bytes:
    if not request.group_id:
        # Here the transaction is verified before the group id is checked; Apache Kafka checks the group id first.
        code = ErrorCode.INVALID_GROUP_ID
    elif code is ErrorCode.PRODUCER_FENCED:
        # The transaction coordinator's code for another epoch; this API uses INVALID_PRODUCER_EPOCH.
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    elif code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_FROM:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    rows = [
        (topic.name, NO_TOPIC_ID, [(each.partition_index, code) for each in topic.partitions])
        for topic in request.topics
    ]
    return pack_txn_commit(version, rows)


def _topic(topic: Any, version: int) -> TopicCommit:
    has_epoch = version >= _LEADER_EPOCH_FROM
    partitions = [
        PartitionCommit(
            each.partition_index,
            each.committed_offset,
            each.committed_leader_epoch if has_epoch else NO_LEADER_EPOCH,
            each.committed_metadata,
        )
        for each in topic.partitions
    ]
    return TopicCommit(topic.name, partitions)
