"""The messages between the controller and every other process, as bytes.

A frame is a kind byte and a body: metadata deltas are bytes already when they reach this module, the rest is msgpack.
"""

import msgspec

from kafkad.core.request_context import ClientIdentity, RequestContext

DELTA = 0x10
MESSAGE = 0x11


class SnapshotRequest(msgspec.Struct, tag="snapshot_wanted", array_like=True):
    """Sent by a process that has no metadata yet, or found a gap in the deltas: it needs a snapshot."""

    have_version: int


class AdminRequest(msgspec.Struct, tag="admin_request", array_like=True):
    """A client's request that the controller answers: the body without its header."""

    token: int
    context: RequestContext
    body: bytes


class AdminReply(msgspec.Struct, tag="admin_reply", array_like=True):
    """The response body without its header. None closes the connection; `reason` says why."""

    token: int
    body: bytes | None
    reason: str = ""


class AutoCreateRequest(msgspec.Struct, tag="auto_create_wanted", array_like=True):
    """Unknown topics that a Metadata request names: the controller may create them."""

    token: int
    names: list[str]


class AutoCreated(msgspec.Struct, tag="auto_created", array_like=True):
    """Error code by topic name, 0 for created; sent after the metadata that has the new topics."""

    token: int
    errors: dict[str, int]


class Applied(msgspec.Struct, tag="applied", array_like=True):
    """The sender has applied metadata: its applied version is in the process registry."""

    version: int


class DirectoriesRemoved(msgspec.Struct, tag="directories_removed", array_like=True):
    """A worker has removed all files of these slots of a deleted topic."""

    topic_id: bytes
    slots: list[int]


class RemovalFailed(msgspec.Struct, tag="removal_failed", array_like=True):
    """A worker can't rename the directory of this slot's deleted partition, and goes on trying.

    Said once, and before the worker has applied the deletion. `is_full`: there is no room, otherwise its log directory
    has failed.
    """

    slot: int
    cause: str
    is_full: bool


class LogDirFailed(msgspec.Struct, tag="log_dir_failed", array_like=True):
    """A process could not write or sync in this directory: its partitions are offline from now on."""

    log_dir: int
    cause: str


class LogDirsWithoutRoom(msgspec.Struct, tag="log_dirs_without_room", array_like=True):
    """In a cluster: the log directories in which this worker finds no room, all of them."""

    log_dirs: list[int]


class PartitionMoved(msgspec.Struct, tag="partition_moved", array_like=True):
    """A worker has ended the move of a partition to `target`: it is in `log_dir` now."""

    topic_id: bytes
    partition: int
    log_dir: int
    target: int


QuotaRow = tuple[ClientIdentity, int, int]
"""(client, bytes produced, bytes fetched)."""


class QuotaCounts(msgspec.Struct, tag="quota_counts", array_like=True):
    """The recent traffic of clients with quotas at one network process; the controller passes it on to the others."""

    rows: list[QuotaRow]


class LogsMoved(msgspec.Struct, tag="logs_moved", array_like=True):
    """A worker has appended since its last such message: there is something to checkpoint.

    `lowered`: a log was truncated, and is no longer on disk as far as a checkpoint may say.
    """

    lowered: bool = False


class ProducerIdsRequest(msgspec.Struct, tag="producer_ids_wanted", array_like=True):
    """A worker needs a block of producer ids for its transaction coordinators."""


class ProducerIdsGranted(msgspec.Struct, tag="producer_ids_given", array_like=True):
    """The worker may hand out `count` ids from `first` on."""

    first: int
    count: int


class IsrChangeRequest(msgspec.Struct, tag="isr_change_wanted", array_like=True):
    """The leader of a partition asks for this ISR; `leader_epoch` and `partition_epoch` are of the state it knows.
    `broker_epochs`: the life of each of these brokers that has the records, -1 if that is not known.

    It asks again only after an answer. A change for an older leader epoch may be forgotten without one.
    """

    slot: int
    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: list[int]
    broker_epochs: list[int]


class IsrChangeDone(msgspec.Struct, tag="isr_change_done", array_like=True):
    """The answer: the partition's state after the change, or the error code of its refusal.

    A refusal has the leader epoch, the partition epoch and the ISR of the request, so that nobody takes it for the
    answer to a later one. A worker that is refused with a code that may pass asks again itself.
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
    | LogDirsWithoutRoom
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
