"""Create an object in S3 only if its name is unused, through obstore: pyarrow has no such call.

S3 guarantees this for a PUT with `If-None-Match: *`. Some compatible stores ignore the header and overwrite objects:
`check_store` detects them before an export depends on the guarantee.
"""

from datetime import timedelta
from urllib.parse import urlsplit

from kafkad_lakehouse.export.problems import ExportFailed, NotInstalled, UnsupportedStore

try:
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError
    from obstore.store import S3Store
except ImportError as error:
    raise NotInstalled("s3", "obstore") from error

_MAX_ATTEMPTS = 5
_RETRIES = 5
_RETRY_TIMEOUT = timedelta(seconds=60)


class ConditionalPuts:
    """Objects below one address s3://BUCKET/PREFIX. Raises `ExportFailed`."""

    def __init__(self, address: str, region: str) -> None:
        parts = urlsplit(address)
        self._address = address
        self._store = S3Store(
            parts.netloc,
            prefix=parts.path.strip("/") or None,
            region=region,
            retry_config={"max_retries": _RETRIES, "retry_timeout": _RETRY_TIMEOUT},
        )

    def create(self, path: str, content: bytes) -> bool:
        """Return False if another object has this name."""
        for _ in range(_MAX_ATTEMPTS):
            if self._put(path, content):
                return True
            existing = self._get(path)
            if existing is not None:
                # This process may have created the object itself: the library repeats a request without a response.
                return existing == content
            # Another writer is creating the object.
        return False

    def check_store(self, path: str) -> None:
        """Raises `UnsupportedStore` if the store overwrites objects.

        The probe object is never removed: its removal could mislead a concurrent check.
        """
        if not (self._put(path, b"") and self._put(path, b"")):
            return
        raise UnsupportedStore(
            f"{self._address}: this store ignores If-None-Match and overwrites objects, so concurrent exports could"
            " lose commits: use another store, or an Iceberg table with --catalog"
        )

    def _put(self, path: str, content: bytes) -> bool:
        """Return False if an object has this name."""
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
    """The message without the library's debug output."""
    return " ".join(str(error).partition("Debug source")[0].split())
