"""The filter of a policy, with a time limit for each call."""

from functools import partial
from typing import TYPE_CHECKING

from kafkad.processes.cleaner.time_limit import in_time

if TYPE_CHECKING:
    from kafkad.core.cleaning.record_filter import RecordFilter
    from kafkad.core.columns.arrays import Flags
    from kafkad.core.columns.records import RecordColumns


class BoundedFilter:
    """A `RecordFilter` around another. Raises `CallTooLong`."""

    def __init__(self, record_filter: "RecordFilter") -> None:
        self._filter = record_filter

    @property
    def utilization(self) -> float:
        return self._filter.utilization

    def learn(self, records: "RecordColumns", first_offset: int) -> int:
        return in_time(partial(self._filter.learn, records, first_offset))

    def retains(self, records: "RecordColumns", end_offset: int, now_ms: int) -> "Flags":
        return in_time(partial(self._filter.retains, records, end_offset, now_ms))
