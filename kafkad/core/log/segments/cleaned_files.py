"""The files that a cleaning pass has written to replace neighbouring segments."""

from dataclasses import dataclass

from kafkad.core.log.segments.layout import LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedFiles:
    """A segment in `.cleaned` files; `.txnindex` exists only with aborted transactions."""

    base_offset: int
    size: int
    index_bytes: int
    time_index_bytes: int
    txn_index_bytes: int
    max_timestamp: int
    offset_of_max_timestamp: int
    first_timestamp: int

    def kinds(self) -> tuple[str, ...]:
        kinds = (LOG, OFFSET_INDEX, TIME_INDEX)
        return (*kinds, TXN_INDEX) if self.txn_index_bytes else kinds
