"""Times that people write."""

from datetime import UTC, datetime


def iso_milliseconds(text: str) -> int:
    """A time in ISO 8601, in UTC when it has no time zone, as milliseconds since 1970. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
