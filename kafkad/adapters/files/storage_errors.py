"""Translates OSError into the exceptions of the core: full disk, or failed disk."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from kafkad.core.ports import NoSpaceLeft, StorageFailed

FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def storage_errors(path: str) -> Iterator[None]:
    """Raises NoSpaceLeft or StorageFailed for an OSError with `path`; FileNotFoundError passes unchanged."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        kind = NoSpaceLeft if error.errno in FULL else StorageFailed
        raise kind(f"{path}: {error}") from error
