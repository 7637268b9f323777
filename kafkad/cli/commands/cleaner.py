"""`kafkad cleaner`: show the state of compaction and the reasons of failures, and retry."""

import json
import time

import click
import msgspec

from kafkad.cli.broker_options import CommandFailed, broker_options, connected_client
from kafkad.cli.options import json_option, number_in, timeout_option
from kafkad.cli.transaction_tables import table
from kafkad.client.compactions import LastCompaction, LogCompaction, NoCompactions, compactions
from kafkad.client.configs import touch_topic_config

DEFAULT_LISTENER = "127.0.0.1:9308"


@click.group(epilog="\b\nExample:\n  kafkad cleaner status\n  kafkad cleaner retry orders")
def cleaner() -> None:
    """Show and retry the compaction of logs."""


@cleaner.command(
    epilog="\b\nExample:\n  kafkad cleaner status\n  kafkad cleaner status orders --json\n"
    "  kafkad cleaner status --metrics-listener broker1:9308"
)
@click.argument("topic", required=False)
@click.option(
    "--metrics-listener",
    "listener",
    default=DEFAULT_LISTENER,
    show_default=True,
    metavar="HOST:PORT",
    help="The kafkad.metrics.listener of the broker.",
)
@timeout_option(10.0)
@json_option
def status(topic: str | None, listener: str, timeout_s: float, as_json: bool) -> None:
    """Print how dirty each compacted log of a broker is, its state, and how its last compaction ended.

    A log in state `quarantined` can't be compacted: a line below the table has the reason, the damaged file and
    position, and the time of the next attempt.
    """
    host, colon, port = listener.rpartition(":")
    number = number_in(port, 65_535)
    if not colon or not number:
        raise click.UsageError(f"expected HOST:PORT, not {listener!r}")
    try:
        found = compactions(host.strip("[]"), number, timeout_s)
    except NoCompactions as failed:
        raise CommandFailed(str(failed)) from None
    rows = [row for row in found if topic in (None, row.topic)]
    if topic is not None and not rows:
        raise CommandFailed(f"topic {topic!r} is not compacted, or no cleaner of this broker has checked it yet")
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(rows)))
        return
    for line in status_lines(rows, round(time.time() * 1000)):
        click.echo(line)


@cleaner.command(epilog="\b\nExample:\n  kafkad cleaner retry orders")
@click.argument("topic")
@json_option
@broker_options
def retry(topic: str, as_json: bool, bootstrap: str, timeout_s: float) -> None:
    """Retry the compaction of a topic's logs that could not be compacted.

    The command sends IncrementalAlterConfigs without a change; cleaners then retry at once.
    """
    with connected_client(bootstrap, timeout_s) as client:
        touch_topic_config(client, topic)
    click.echo(json.dumps({"topic": topic}) if as_json else f"topic {topic!r}: compaction is retried")


def status_lines(rows: list[LogCompaction], now_ms: int) -> list[str]:
    """A table, and a line for each log that can't be compacted."""
    header = ("TOPIC", "PARTITION", "STATE", "DIRTY", "DIRTY-BYTES", "CLEANED-TO", "ENDED", "SECONDS", "KEPT")
    lines = table(header, [_cells(row, now_ms) for row in rows])
    return lines + [_reason(row, now_ms) for row in rows if row.failure is not None]


def _cells(row: LogCompaction, now_ms: int) -> tuple[object, ...]:
    dirty = f"{100 * row.dirty_ratio:.0f} %"
    return row.topic, row.partition, row.state, dirty, row.cleanable_bytes, *_last(row.last, now_ms)


def _last(last: LastCompaction | None, now_ms: int) -> tuple[object, ...]:
    """End offset, age, duration, and share of the remaining bytes."""
    if last is None:
        return "-", "-", "-", "-"
    kept = f"{100 * last.bytes_written / max(1, last.bytes_read):.0f} %"
    return last.cleaned_offset, f"{_seconds(now_ms - last.ended_ms)} ago", f"{last.seconds:.1f}", kept


def _reason(row: LogCompaction, now_ms: int) -> str:
    when = "when its configuration changes"
    if row.retry_ms is not None:
        when = f"in {_seconds(row.retry_ms - now_ms)}, or {when}"
    return f"{row.topic}-{row.partition}: {row.failure}; next attempt {when}"


def _seconds(elapsed_ms: int) -> str:
    return f"{max(0, elapsed_ms) // 1000} s"
