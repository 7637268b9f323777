"""The progress of followers, from network processes to the owners of partitions; packed like descriptors."""

from struct import Struct
from typing import NamedTuple

FOLLOWER_FETCHED = 0x07
_FOLLOWER_FETCHED = Struct("<IIiiqqqq")


class FollowerFetched(NamedTuple):
    """A follower fetched from `fetch_offset` on, so its log contains all earlier records.

    `generation` and `leader_epoch` describe the leader's log at the time of the fetch; `replica_epoch` is the
    follower's broker epoch, -1 if the fetch does not contain it. `time_ms` is CLOCK_MONOTONIC.
    """

    slot: int
    generation: int
    leader_epoch: int
    replica_id: int
    replica_epoch: int
    fetch_offset: int
    log_start_offset: int
    time_ms: int


def pack_follower_fetched(row: FollowerFetched) -> bytes:
    return _FOLLOWER_FETCHED.pack(*row)


def unpack_followers_fetched(frame: bytes) -> list[FollowerFetched]:
    return [FollowerFetched._make(row) for row in _FOLLOWER_FETCHED.iter_unpack(memoryview(frame)[1:])]
