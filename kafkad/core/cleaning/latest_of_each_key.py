"""The filter of compaction for policies that do not load numpy themselves."""

from typing import TYPE_CHECKING

from kafkad.core.cleanup import FilterLimits

if TYPE_CHECKING:
    from kafkad.core.cleaning.record_filter import RecordFilter


def latest_of_each_key(limits: FilterLimits) -> "RecordFilter":
    """Keeps the last record of each key, tombstones until their delete horizon, and no record without a key."""
    # numpy takes 15 MB that only a cleaner which has something to compact should pay.
    from kafkad.core.cleaning.record_filter import LatestOfEachKey  # noqa: PLC0415

    return LatestOfEachKey(
        most_bytes=limits.most_bytes,
        load_factor=limits.load_factor,
        most_keys=limits.most_keys,
        seed=limits.seed,
    )
