"""What can't be exported, in one line for people."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from kafkad.client.connection import BrokerCallFailed
from kafkad.core.errors import ErrorCode

_NOT_NOW = frozenset(
    {
        None,
        *(ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR),
        *(ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    }
)
"""Nobody answers, or who answers has just started."""
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
"""How libraries tell a terminal about colours."""


class ExportFailed(Exception):
    """The export stops; what was committed before stays. One line, also of what libraries say in several."""

    def __init__(self, said: str) -> None:
        super().__init__(" ".join(line.strip() for line in _COLOUR.sub("", said).splitlines()))


class DataLost(ExportFailed):
    """Records that the table does not have are no longer in the log: `--on-data-loss skip` continues after them."""


class Away(ExportFailed):
    """What a run needs can't be asked now; later it may be there again."""


class BrokerAway(Away):
    """A run asks it again."""


class RegistryAway(Away):
    """The registry of schemas."""


class AnotherExport(ExportFailed):
    """Somebody else has committed to the table since this export looked at it."""


class StoreUnfit(ExportFailed):
    """The object store can't do what a table there needs."""


class NotInstalled(ExportFailed):
    """An optional package is missing."""

    def __init__(self, extra: str, module: str) -> None:
        super().__init__(f"{module} is not installed: pip install 'kafkad[{extra}]'")


@contextmanager
def after_commit() -> Iterator[None]:
    """What fails in the body changes nothing of the table any more."""
    try:
        yield
    except ExportFailed as failed:
        raise ExportFailed(f"the records were committed, but {failed}") from failed


def not_answered(failed: BrokerCallFailed) -> ExportFailed:
    return BrokerAway(str(failed)) if failed.code in _NOT_NOW else ExportFailed(str(failed))
