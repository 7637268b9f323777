"""Create an object of S3 unless there is one of its name, which pyarrow does not offer: through obstore.

S3 promises it for a PUT with `If-None-Match: *`. Some stores that are like S3 ignore this header and write over what
is there: `check_store` finds that out before anything depends on it.
"""

from datetime import timedelta
from urllib.parse import urlsplit

from kafkad.export.problems import ExportFailed, NotInstalled, StoreUnfit

try:
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError
    from obstore.store import S3Store
except ImportError as error:
    raise NotInstalled("s3", "obstore") from error

_TRIES = 5
_RETRIES = 5
_RETRIED = timedelta(seconds=60)


class ConditionalPuts:
    """Below one address s3://BUCKET/PREFIX. Raises `ExportFailed`."""

    def __init__(self, address: str, region: str) -> None:
        parts = urlsplit(address)
        self._address = address
        self._store = S3Store(
            parts.netloc,
            prefix=parts.path.strip("/") or None,
            region=region,
            retry_config={"max_retries": _RETRIES, "retry_timeout": _RETRIED},
        )

    def create(self, path: str, content: bytes) -> bool:
        """False: there is another one."""
        for _ in range(_TRIES):
            if self._put(path, content):
                return True
            there = self._get(path)
            if there is not None:
                # Perhaps our own, whose answer got lost: then the request was repeated.
                return there == content
            # Somebody else is writing it.
        return False

    def check_store(self, path: str) -> None:
        """Raises `StoreUnfit` where objects are written over. The object stays: who removed it could mislead others
        that check at the same moment.
        """
        if not (self._put(path, b"") and self._put(path, b"")):
            return
        raise StoreUnfit(
            f"{self._address}: this store ignores If-None-Match and writes over what is there, so that exports could"
            " lose each other's commits: use another one, or an Iceberg table with --catalog"
        )

    def _put(self, path: str, content: bytes) -> bool:
        """False: there is one."""
        try:
            obstore.put(self._store, path, content, mode="create")
        except AlreadyExistsError:
            return False
        except (BaseError, OSError) as error:
            raise ExportFailed(f"{self._address} can't be written: {_one_line(error)}") from error
        return True

    def _get(self, path: str) -> bytes | None:
        try:
            return bytes(obstore.get(self._store, path).bytes())
        except FileNotFoundError:
            return None
        except (BaseError, OSError) as error:
            raise ExportFailed(f"{self._address} can't be read: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    """Without the library's own view of it."""
    return " ".join(str(error).partition("Debug source")[0].split())
