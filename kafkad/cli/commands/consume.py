"""`kafkad consume`: print the records of a topic, without a consumer group."""

import sys
from collections.abc import Iterator
from time import monotonic

import click

from kafkad.cli.broker_options import CommandFailed, broker_options, connected_client
from kafkad.cli.options import INT32, INT64, INT64_MAX
from kafkad.cli.record_format import (
    TOKENS,
    ConsumedRecord,
    Formatter,
    UnknownToken,
    compile_format,
    format_json,
)
from kafkad.client.broker_client import BrokerClient
from kafkad.client.records import EARLIEST, LATEST, FetchedPartition, fetch, offsets
from kafkad.core.log.records.batch import BatchHeader, CorruptBatch, read_header, read_size
from kafkad.core.log.records.record import MalformedRecords, Record, iter_records, record_timestamp

_FETCH_WAIT_MS = 500
_LENGTH_AT = 12
_MAX_HEADERS = 1_000_000
"""Limit for a batch: a batch of 15 KB may have tens of millions."""


@click.command(
    epilog="\b\nExample:\n  kafkad consume demo --from-beginning\n"
    "  kafkad consume demo --partition 0 --offset 10 --max-messages 5 --json\n"
    "  kafkad consume demo --from-beginning --exit-at-end --format '%p %o %k=%s\\n'"
)
@click.argument("topic")
@click.option("--from-beginning", is_flag=True, help="Start at the oldest record instead of the log end.")
@click.option("--offset", type=INT64, help="Start at this offset in each partition.")
@click.option("--partition", "partitions", type=INT32, multiple=True, help="Repeatable.")
@click.option("--max-messages", type=click.IntRange(1, INT64_MAX), help="Stop after this number of records.")
@click.option("--timeout-ms", type=click.IntRange(1, INT64_MAX), help="Stop after this time without a record.")
@click.option("--exit-at-end", is_flag=True, help="Stop at the current end of the log.")
@click.option(
    "--format",
    "format_text",
    default="%s\\n",
    show_default=True,
    metavar="FORMAT",
    help=", ".join(f"{token} {meaning}" for token, (meaning, _) in TOKENS.items()),
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each record instead of --format.")
@broker_options
def consume(
    topic: str,
    from_beginning: bool,
    offset: int | None,
    partitions: tuple[int, ...],
    max_messages: int | None,
    timeout_ms: int | None,
    exit_at_end: bool,
    format_text: str,
    as_json: bool,
    bootstrap: str,
    timeout_s: float,
) -> None:
    """Print the records of TOPIC, from the log end or from a given offset on, until Ctrl-C."""
    if from_beginning and offset is not None:
        raise click.UsageError("--from-beginning and --offset exclude each other")
    formatter = format_json if as_json else _formatter(format_text)
    with connected_client(bootstrap, timeout_s) as client:
        known = [described.partition for described in client.topics([topic])[0].partitions]
        reading = Reading(client, topic, list(partitions) or known)
        reading.start_at(offset if offset is not None else EARLIEST if from_beginning else LATEST)
        if exit_at_end:
            reading.end_here()
        _print(reading, formatter, max_messages, timeout_ms)


class Reading:
    """The position of the command in each partition, and the optional end offset."""

    def __init__(self, client: BrokerClient, topic: str, partitions: list[int]) -> None:
        self._client = client
        self._topic = topic
        self._partitions = partitions
        self._positions: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    def start_at(self, start: int) -> None:
        """`start` is an offset, EARLIEST or LATEST."""
        if start < 0:
            self._positions = offsets(self._client, self._topic, self._partitions, start)
        else:
            self._positions = dict.fromkeys(self._partitions, start)

    def end_here(self) -> None:
        """Stop at the current end of the log."""
        self._ends = offsets(self._client, self._topic, self._partitions, LATEST)
        self._drop_finished()

    @property
    def is_finished(self) -> bool:
        return not self._positions

    def next_records(self, max_wait_ms: int) -> Iterator[ConsumedRecord]:
        """The records of one fetch; empty if there are none within `max_wait_ms`."""
        for fetched in fetch(self._client, self._topic, self._positions, max_wait_ms=max_wait_ms):
            yield from self._unpack(fetched)
        self._drop_finished()

    def _drop_finished(self) -> None:
        for partition, end in self._ends.items():
            if self._positions.get(partition, end) >= end:
                self._positions.pop(partition, None)

    def _unpack(self, fetched: FetchedPartition) -> Iterator[ConsumedRecord]:
        end = self._ends.get(fetched.partition)
        for batch in whole_batches(fetched.records):
            header = read_header(batch)
            if not header.is_control:
                for record in self._records(fetched.partition, header, batch):
                    offset = header.base_offset + record.offset_delta
                    if offset < self._positions[fetched.partition] or (end is not None and offset >= end):
                        continue
                    yield ConsumedRecord(
                        topic=self._topic,
                        partition=fetched.partition,
                        offset=offset,
                        timestamp=record_timestamp(header, record),
                        key=record.key,
                        value=record.value,
                        headers=record.headers,
                    )
            self._positions[fetched.partition] = max(header.next_offset, self._positions[fetched.partition])

    def _records(self, partition: int, header: BatchHeader, batch: memoryview) -> Iterator[Record]:
        """The records of a batch. Raises CommandFailed, with the next offset, for an unreadable batch of a producer."""
        try:
            yield from iter_records(batch, max_headers=_MAX_HEADERS)
        except MalformedRecords as error:
            raise CommandFailed(
                f"{self._topic}-{partition}: the batch with the offsets {header.base_offset} to {header.last_offset}"
                f" can't be read: {error}. --partition {partition} --offset {header.next_offset} continues after it"
            ) from error


def whole_batches(records: bytes) -> Iterator[memoryview]:
    """The complete batches of a fetch; a later fetch returns an incomplete batch at the end."""
    view = memoryview(records)
    position = 0
    while len(view) - position >= _LENGTH_AT:
        size = read_size(view, position)
        if len(view) - position < size:
            return
        yield view[position : position + size]
        position += size


def _print(reading: Reading, formatter: Formatter, max_messages: int | None, timeout_ms: int | None) -> None:
    out = sys.stdout.buffer
    printed = 0
    deadline = _deadline(timeout_ms)
    while not reading.is_finished:
        left_ms = _FETCH_WAIT_MS if deadline is None else min(_FETCH_WAIT_MS, (deadline - monotonic()) * 1000)
        if left_ms <= 0:
            return
        try:
            for record in reading.next_records(int(left_ms)):
                out.write(formatter(record))
                printed += 1
                deadline = _deadline(timeout_ms)
                if printed == max_messages:
                    return
        except CorruptBatch as error:
            raise CommandFailed(f"the broker sent a batch that can't be read: {error}") from None
        finally:
            out.flush()


def _deadline(timeout_ms: int | None) -> float | None:
    return None if timeout_ms is None else monotonic() + timeout_ms / 1000


def _formatter(text: str) -> Formatter:
    try:
        return compile_format(text)
    except UnknownToken as unknown:
        raise click.BadParameter(str(unknown), param_hint="--format") from None
