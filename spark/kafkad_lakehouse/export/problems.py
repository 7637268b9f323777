"""The errors of an export, each with a message of one line."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from kafkad.client.connection import BrokerCallFailed
from kafkad.core.errors import ErrorCode

_TEMPORARY = frozenset(
    {
        None,
        *(ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR),
        *(ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    }
)
"""No broker responds, or a broker is starting or in a failover."""
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
"""Terminal escape sequences for colours in messages of libraries."""


class ExportFailed(Exception):
    """The export stops; earlier commits stay. Messages of libraries with several lines become one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(line.strip() for line in _COLOUR.sub("", message).splitlines()))


class DataLost(ExportFailed):
    """The log no longer has records that were not exported: `--on-data-loss skip` continues after them."""


class ServiceUnavailable(ExportFailed):
    """A broker or a schema registry does not respond now, and may respond later."""


class BrokerUnavailable(ServiceUnavailable):
    """No broker responds; a run retries."""


class RegistryUnavailable(ServiceUnavailable):
    """The schema registry does not respond."""


class CommitConflict(ExportFailed):
    """Another writer has committed to the table since this export read its state."""


class UnsupportedStore(ExportFailed):
    """The object store lacks a guarantee that tables need."""


class NotInstalled(ExportFailed):
    """An optional package is missing."""

    def __init__(self, extra: str, module: str) -> None:
        super().__init__(f"{module} is not installed: pip install 'kafkad[{extra}]'")


@contextmanager
def after_commit() -> Iterator[None]:
    """Errors in the body do not affect the commit."""
    try:
        yield
    except ExportFailed as failed:
        raise ExportFailed(f"the records were committed, but {failed}") from failed


def export_failure(failed: BrokerCallFailed) -> ExportFailed:
    return BrokerUnavailable(str(failed)) if failed.code in _TEMPORARY else ExportFailed(str(failed))
