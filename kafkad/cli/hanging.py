"""Find hanging transactions: open transactions without a coordinator that has the transaction and the partition."""

from collections.abc import Iterable, Mapping, Sequence

from kafkad.client.transactions import Partition, ProducerState


def overdue(producers: Iterable[ProducerState], now_ms: int, max_timeout_ms: int) -> list[ProducerState]:
    """Producers with an open transaction and no write within the maximum transaction timeout."""
    return [row for row in producers if row.start_offset is not None and now_ms - row.last_timestamp > max_timeout_ms]


def hanging(
    candidates: Iterable[ProducerState],
    id_of: Mapping[int, str],
    partitions_of: Mapping[str, Sequence[Partition]],
) -> list[ProducerState]:
    """`id_of` has the transactional id of each producer id, `partitions_of` the partitions of its transaction, with
    partitions with a pending marker.
    """
    found = []
    for row in candidates:
        transactional_id = id_of.get(row.producer_id)
        if transactional_id is None or (row.topic, row.partition) not in partitions_of.get(transactional_id, ()):
            found.append(row)
    return found
