"""OffsetForLeaderEpoch, versions 2 to 4: where did a leader epoch end? By this, clients notice lost records (KIP-320).

The answer names the largest epoch not after the one asked, as that may have written nothing.
"""

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.epochs import LeaderEpochCache
from kafkad.handlers.leadership import find_leader
from kafkad.handlers.steps import STEP, Steps
from kafkad.handlers.view import BrokerView
from kafkad.wire.offset_for_leader_epoch import EpochEnd, WantedEpoch, pack_response, pack_topic, read_request


def handle(body: memoryview, version: int, view: BrokerView) -> Steps:
    topics = yield from read_request(body, version)
    packed: list[bytes] = []
    number = 0
    for name, rows in topics:
        ends: list[EpochEnd] = []
        for row in rows:
            while (end := _end(name, row, view)) is None:
                yield True
            ends.append(end)
            number += 1
            if number % STEP == 0:
                yield False
        packed.append(pack_topic(version, name, ends))
    return pack_response(version, packed)


def _end(name: str, wanted: WantedEpoch, view: BrokerView) -> EpochEnd | None:
    """None: its owner was asked where its segments are."""
    try:
        slot, published = find_leader(view, name, wanted.partition, wanted.current_leader_epoch)
    except KafkaError as error:
        return EpochEnd(error.code, wanted.partition)
    reader = view.logs.reader(slot, published)
    if reader is None:
        return None
    epochs = LeaderEpochCache(reader.manifest.epochs)
    # A log learns of an epoch with its first record; to clients it begins with its leader.
    epochs.assign(published.leader_epoch, published.leo_offset)
    return EpochEnd(ErrorCode.NONE, wanted.partition, *epochs.end_offset_for(wanted.leader_epoch, published.leo_offset))
