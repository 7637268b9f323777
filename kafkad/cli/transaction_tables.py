"""The tables of transactions, with the columns of kafka-transactions.sh."""

from collections.abc import Sequence

from kafkad.client.transactions import ListedTransaction, ProducerState, TransactionDescription

_MINUTE_MS = 60_000


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Padded columns, each followed by a tab."""
    texts = [list(header), *([str(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(header))]
    return ["".join(f"{text:<{width}}\t" for text, width in zip(row, widths, strict=True)) for row in texts]


def listing_lines(rows: Sequence[ListedTransaction]) -> list[str]:
    return table(("TransactionalId", "Coordinator", "ProducerId", "TransactionState"), rows)


def description_lines(row: TransactionDescription, now_ms: int) -> list[str]:
    header = (
        *("CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState"),
        *("TransactionTimeoutMs", "CurrentTransactionStartTimeMs", "TransactionDurationMs", "TopicPartitions"),
    )
    times = ("None", "None") if row.start_ms is None else (row.start_ms, now_ms - row.start_ms)
    values = (
        *(row.coordinator, row.transactional_id, row.producer_id, row.producer_epoch, row.state, row.timeout_ms),
        *times,
        ",".join(f"{topic}-{partition}" for topic, partition in row.partitions),
    )
    return table(header, [values])


def hanging_lines(rows: Sequence[ProducerState], now_ms: int) -> list[str]:
    header = (
        *("Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTimestamp"),
        "Duration(min)",
    )
    return table(
        header,
        [
            (
                *(row.topic, row.partition, row.producer_id, row.producer_epoch, row.coordinator_epoch),
                *(row.start_offset, row.last_timestamp, (now_ms - row.last_timestamp) // _MINUTE_MS),
            )
            for row in rows
        ],
    )
