"""`kafkad produce`: send each line of standard input as a record.

Lines are read from the file descriptor in groups for one batch each. A typed line is sent at once; fast lines are
collected. Only the line feed at the end of each line is removed.
"""

import json
import os
import select
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator

import click

from kafkad.adapters.operating_system.clocks import wall_clock_ms
from kafkad.cli.broker_options import CommandFailed, broker_options, connected_client
from kafkad.cli.options import INT32, json_option
from kafkad.client.producing import partition_of_key
from kafkad.client.producing import produce as produce_batch
from kafkad.core.log.records.batch import Codec
from kafkad.core.log.records.record import NewRecord, build_batch

GROUP_BYTES = 512 * 1024
LINGER_S = 0.005
_CHUNK_BYTES = 256 * 1024


def line_groups(descriptor: int) -> Iterator[list[bytes]]:
    """Groups of complete lines. A group ends at GROUP_BYTES, or after LINGER_S without a line."""
    rest = b""
    group: list[bytes] = []
    group_bytes = 0
    while chunk := os.read(descriptor, _CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(b"\n")
        group += whole
        group_bytes += len(chunk)
        if group and (group_bytes >= GROUP_BYTES or not _more_within(descriptor, LINGER_S)):
            yield group
            group, group_bytes = [], 0
    if rest:
        group.append(rest)
    if group:
        yield group


def _more_within(descriptor: int, seconds: float) -> bool:
    try:
        readable, _, _ = select.select([descriptor], [], [], seconds)
    except PermissionError:
        # Some kernels can't wait for regular files, which never block.
        return True
    return bool(readable)


_ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}
BATCH_BYTES = 960 * 1024
"""Uncompressed; below the broker's default for the largest batch (max.message.bytes, 1 MiB)."""
_RECORD_OVERHEAD = 36
"""The largest size of a record without its key, value and headers."""

Headers = tuple[tuple[str, bytes], ...]


@click.command(
    epilog="\b\nExample:\n  echo hello | kafkad produce demo\n"
    "  printf 'k1:one\\nk2:two\\n' | kafkad produce demo --key-separator :"
)
@click.argument("topic")
@click.option("--key-separator", metavar="TEXT", help="Split each line into key and value at the first TEXT.")
@click.option(
    "--compression",
    type=click.Choice([codec.name.lower() for codec in Codec]),
    default="none",
    show_default=True,
)
@click.option(
    "--acks",
    type=click.Choice(list(_ACKS)),
    default="all",
    show_default=True,
    help="Replicas that must acknowledge a record.",
)
@click.option("--partition", type=INT32, help="Default: by key; round robin without a key.")
@click.option("--header", "headers", multiple=True, metavar="KEY=VALUE", help="Header of every record; repeatable.")
@json_option
@broker_options
def produce(
    topic: str,
    key_separator: str | None,
    compression: str,
    acks: str,
    partition: int | None,
    headers: tuple[str, ...],
    as_json: bool,
    bootstrap: str,
    timeout_s: float,
) -> None:
    """Send each line of standard input to TOPIC as one record.

    The topic is created if the broker auto-creates topics. With --json the last line is an object with the number of
    records.
    """
    parsed_headers = tuple(_header(header) for header in headers)
    separator = key_separator.encode() if key_separator else None
    sent: dict[int, int] = defaultdict(int)
    with connected_client(bootstrap, timeout_s) as client:
        count = len(client.topics([topic], create=True)[0].partitions)
        placed = Placement(count, partition)
        for lines in line_groups(sys.stdin.fileno()):
            records = _records(lines, separator, parsed_headers)
            for target, batch_records in placed.place(records):
                for part in _parts(batch_records):
                    batch = build_batch(part, codec=Codec[compression.upper()])
                    produce_batch(client, topic, target, batch, acks=_ACKS[acks])
                    sent[target] += len(part)
    if as_json:
        click.echo(json.dumps({"topic": topic, "records": sum(sent.values()), "partitions": sent}))


class Placement:
    """Assigns records to partitions; batches without keys are assigned round robin."""

    def __init__(self, partition_count: int, fixed: int | None) -> None:
        self._partition_count = partition_count
        self._fixed = fixed
        self._next = 0

    def place(self, records: Iterable[NewRecord]) -> Iterator[tuple[int, list[NewRecord]]]:
        """The records by partition, in order."""
        turn = self._next
        self._next = (turn + 1) % self._partition_count
        by_partition: dict[int, list[NewRecord]] = {}
        for record in records:
            if self._fixed is not None:
                target = self._fixed
            elif record.key is not None:
                target = partition_of_key(record.key, self._partition_count)
            else:
                target = turn
            by_partition.setdefault(target, []).append(record)
        yield from by_partition.items()


def _records(lines: list[bytes], separator: bytes | None, headers: Headers) -> Iterator[NewRecord]:
    now = wall_clock_ms()
    for line in lines:
        if separator is None:
            yield NewRecord(now, None, line, headers)
            continue
        key, found, value = line.partition(separator)
        if not found:
            raise CommandFailed(f"expected a key and {separator.decode()!r} in each line, found {line[:60]!r}")
        yield NewRecord(now, key, value, headers)


def _parts(records: list[NewRecord]) -> Iterator[list[NewRecord]]:
    """Split the records into batches. A larger record is sent alone; the broker may reject it."""
    part: list[NewRecord] = []
    size = 0
    # The headers are the same in every record, and each has two lengths of at most 5 bytes.
    headers_size = sum(len(name.encode()) + len(value or b"") + 10 for name, value in records[0].headers)
    for record in records:
        record_size = _RECORD_OVERHEAD + headers_size + len(record.key or b"") + len(record.value or b"")
        if part and size + record_size > BATCH_BYTES:
            yield part
            part, size = [], 0
        part.append(record)
        size += record_size
    yield part


def _header(pair: str) -> tuple[str, bytes]:
    key, equals, value = pair.partition("=")
    if not equals or not key:
        raise click.BadParameter(f"expected KEY=VALUE, found {pair!r}", param_hint="--header")
    return key, value.encode()
