"""The messages between the controller and all other processes, as bytes.

A frame is a kind byte and a body: bytes of a metadata delta, or a message in msgpack.
"""

import msgspec

from kafkad.core.request_context import ClientIdentity, RequestContext

DELTA = 0x10
MESSAGE = 0x11


class SnapshotRequest(msgspec.Struct, tag="snapshot_request", array_like=True):
    """A process without metadata, or with a gap in the deltas, requests a snapshot."""

    have_version: int


class AdminRequest(msgspec.Struct, tag="admin_request", array_like=True):
    """A client's request to the controller: the body without the header."""

    token: int
    context: RequestContext
    body: bytes


class AdminReply(msgspec.Struct, tag="admin_reply", array_like=True):
    """The response body without the header. None closes the connection with `reason`."""

    token: int
    body: bytes | None
    reason: str = ""


class AutoCreateRequest(msgspec.Struct, tag="auto_create_request", array_like=True):
    """The unknown topics of a Metadata request, to be created by the controller."""

    token: int
    names: list[str]


class AutoCreated(msgspec.Struct, tag="auto_created", array_like=True):
    """The error code of each topic, 0 if it was created; sent after the metadata with the new topics."""

    token: int
    errors: dict[str, int]


class Applied(msgspec.Struct, tag="applied", array_like=True):
    """The sender has applied metadata; the process registry has its version."""

    version: int


class DirectoriesRemoved(msgspec.Struct, tag="directories_removed", array_like=True):
    """A worker has removed all files of these slots of a deleted topic."""

    topic_id: bytes
    slots: list[int]


class RemovalFailed(msgspec.Struct, tag="removal_failed", array_like=True):
    """A worker can't rename the directory of this slot's deleted partition, and continues to try.

    Sent once, before the worker has applied the deletion. `is_full`: the disk is full; else the log directory failed.
    """

    slot: int
    cause: str
    is_full: bool


class LogDirFailed(msgspec.Struct, tag="log_dir_failed", array_like=True):
    """A process could not write or sync in this log directory: the directory and its partitions go offline."""

    log_dir: int
    cause: str


class FullLogDirs(msgspec.Struct, tag="full_log_dirs", array_like=True):
    """In a cluster: all log directories of this worker that are full."""

    log_dirs: list[int]


class PartitionMoved(msgspec.Struct, tag="partition_moved", array_like=True):
    """A worker has ended the move of a partition to `target`: the partition is in `log_dir` now."""

    topic_id: bytes
    partition: int
    log_dir: int
    target: int


QuotaRow = tuple[ClientIdentity, int, int]
"""(client, bytes produced, bytes fetched)."""


class QuotaCounts(msgspec.Struct, tag="quota_counts", array_like=True):
    """The recent traffic of clients with quotas at one network process; the controller forwards it to the others."""

    rows: list[QuotaRow]


class LogsMoved(msgspec.Struct, tag="logs_moved", array_like=True):
    """A worker has appended since its last such message, so checkpoints must be written.

    `lowered`: a log was truncated, so that a checkpoint may be beyond its end.
    """

    lowered: bool = False


class ProducerIdsRequest(msgspec.Struct, tag="producer_ids_request", array_like=True):
    """A worker requests a block of producer ids for its transaction coordinators."""


class ProducerIdsGranted(msgspec.Struct, tag="producer_ids_granted", array_like=True):
    """The worker may allocate `count` ids from `first` on."""

    first: int
    count: int


class IsrChangeRequest(msgspec.Struct, tag="isr_change_request", array_like=True):
    """The leader of a partition requests this ISR; `leader_epoch` and `partition_epoch` are its current state.

    `broker_epochs` has the epoch of each broker of the ISR as in its last fetch, -1 if it is unknown. The leader sends
    the next request after the response. Requests with an older leader epoch may be dropped without a response.
    """

    slot: int
    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: list[int]
    broker_epochs: list[int]


class IsrChangeDone(msgspec.Struct, tag="isr_change_done", array_like=True):
    """The response: the partition's state after the change, or the error code of a rejection.

    A rejection has the leader epoch, the partition epoch and the ISR of the request, so that it can't be taken for the
    response to a later request. The worker retries after retriable codes.
    """

    slot: int
    topic_id: bytes
    partition: int
    code: int
    leader: int
    leader_epoch: int
    isr: list[int]
    partition_epoch: int


ControllerMessage = (
    IsrChangeRequest
    | IsrChangeDone
    | LogsMoved
    | ProducerIdsRequest
    | ProducerIdsGranted
    | SnapshotRequest
    | AdminRequest
    | AdminReply
    | AutoCreateRequest
    | AutoCreated
    | Applied
    | DirectoriesRemoved
    | RemovalFailed
    | LogDirFailed
    | FullLogDirs
    | PartitionMoved
    | QuotaCounts
)

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(ControllerMessage)


def pack_message(message: ControllerMessage) -> bytes:
    return bytes((MESSAGE,)) + _encoder.encode(message)


def pack_delta(delta: bytes) -> bytes:
    return bytes((DELTA,)) + delta


def unpack_message(frame: bytes) -> ControllerMessage:
    message: ControllerMessage = _decoder.decode(memoryview(frame)[1:])
    return message
