"""The filter of compaction, for policies that do not import numpy themselves."""

from typing import TYPE_CHECKING

from kafkad.core.cleanup import FilterLimits

if TYPE_CHECKING:
    from kafkad.core.cleaning.record_filter import RecordFilter


def latest_of_each_key(limits: FilterLimits) -> "RecordFilter":
    """Retains the last record of each key, and tombstones until their delete horizon; drops records without a key."""
    # numpy takes 15 MB, which only a cleaner that compacts should use.
    from kafkad.core.cleaning.record_filter import LatestOfEachKey  # noqa: PLC0415

    return LatestOfEachKey(
        most_bytes=limits.most_bytes,
        load_factor=limits.load_factor,
        most_keys=limits.most_keys,
        seed=limits.seed,
    )
