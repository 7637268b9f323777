"""Options that unrelated commands share. Imports little but click, as every command imports this module."""

from datetime import UTC, datetime

import click

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def iso_milliseconds(text: str) -> int:
    """A time in ISO 8601, in UTC when it has no time zone, as milliseconds since 1970. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
