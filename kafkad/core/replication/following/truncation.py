"""Computes the offset to which a follower truncates its log when it diverges from the leader's.

Only leader epochs decide (KIP-101, KIP-595). A follower never truncates to its high watermark, which reaches it late:
records above it may be committed.
"""

from kafkad.core.log.epochs import UNDEFINED_EPOCH, LeaderEpochCache


def truncation_offset(
    epochs: LeaderEpochCache, log_end_offset: int, *, diverging_epoch: int, diverging_end_offset: int
) -> int:
    """The offset to truncate to. The leader names the largest epoch that both logs may share, and its end offset in the
    leader's log. The next response may require a further truncation.
    """
    own_epoch, own_end = epochs.end_offset_for(diverging_epoch, log_end_offset)
    if own_epoch in (UNDEFINED_EPOCH, diverging_epoch):
        own_end = min(log_end_offset if own_epoch == UNDEFINED_EPOCH else own_end, diverging_end_offset)
    # Otherwise the follower has no record of the leader's epoch: it removes all records of later epochs, and no others.
    return max(0, min(own_end, log_end_offset))


def offset_after_out_of_range(log_end_offset: int, *, leader_start: int, leader_end: int) -> tuple[int, bool]:
    """(next fetch offset, whether the log restarts there), when the leader does not have the follower's log end: the
    leader's log is shorter, or starts later.
    """
    if leader_end < log_end_offset:
        return leader_end, False
    return max(leader_start, log_end_offset), leader_start > log_end_offset
