"""OffsetForLeaderEpoch, versions 2 to 4: where did a leader epoch end? By this, clients notice lost records (KIP-320).

The answer names the largest epoch not after the one asked, as that may have written nothing.
"""

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.epochs import LeaderEpochCache
from kafkad.handlers.leadership import find_leader
from kafkad.handlers.view import BrokerView, NotYet
from kafkad.wire.offset_for_leader_epoch import EpochEnd, WantedEpoch, pack_response, read_request


def handle(body: memoryview, version: int, view: BrokerView) -> bytes:
    """The response body. Raises MalformedRequest, NotYet."""
    topics = read_request(body, version)
    return pack_response(version, [(name, [_end(name, row, view) for row in rows]) for name, rows in topics])


def _end(name: str, wanted: WantedEpoch, view: BrokerView) -> EpochEnd:
    try:
        slot, published = find_leader(view, name, wanted.partition, wanted.current_leader_epoch)
    except KafkaError as error:
        return EpochEnd(error.code, wanted.partition)
    reader = view.logs.reader(slot, published)
    if reader is None:
        raise NotYet
    epochs = LeaderEpochCache(reader.manifest.epochs)
    # A log learns of an epoch with its first record; to clients it begins with its leader.
    epochs.assign(published.leader_epoch, published.leo_offset)
    return EpochEnd(ErrorCode.NONE, wanted.partition, *epochs.end_offset_for(wanted.leader_epoch, published.leo_offset))
