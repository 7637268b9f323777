"""Where must a follower truncate its log, when the leader says that their logs part?

By leader epochs alone (KIP-101, KIP-595): records above the high watermark may be committed, as a follower hears of it
late. So the high watermark is never the point to truncate to.
"""

from kafkad.core.log.epochs import UNDEFINED_EPOCH, LeaderEpochCache


def truncation_offset(
    epochs: LeaderEpochCache, log_end_offset: int, *, diverging_epoch: int, diverging_end_offset: int
) -> int:
    """Where the follower's log must end, after the leader named the largest epoch that both may share, and where that
    epoch ends in the leader's log. The next answer may ask for more.
    """
    known_epoch, known_end = epochs.end_offset_for(diverging_epoch, log_end_offset)
    if known_epoch in (UNDEFINED_EPOCH, diverging_epoch):
        known_end = min(log_end_offset if known_epoch == UNDEFINED_EPOCH else known_end, diverging_end_offset)
    # Otherwise the follower has no record of the leader's epoch: all that it has of later epochs goes, not more.
    return max(0, min(known_end, log_end_offset))


def offset_after_out_of_range(log_end_offset: int, *, leader_start: int, leader_end: int) -> tuple[int, bool]:
    """(the offset to go on from, whether the log begins anew there), when the leader does not have the follower's log
    end: its log is shorter, or begins later.
    """
    if leader_end < log_end_offset:
        return leader_end, False
    return max(leader_start, log_end_offset), leader_start > log_end_offset
