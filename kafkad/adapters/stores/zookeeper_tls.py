"""TLS to ZooKeeper: who is trusted, and as whom this broker shows itself.

kazoo would trust the system's authorities beside the given file and choose the versions itself, so its connections are
made here.
"""

import socket
import ssl
from collections.abc import Sequence
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


class UnusableTlsFile(Exception):
    """A file with keys or certificates can't be read; the message names it."""


def tls_context(
    *,
    keystore: str | None,
    keystore_password: str | None,
    truststore: str | None,
    checks_host_name: bool,
    versions: Sequence[str],
) -> ssl.SSLContext:
    """Files are PEM; a keystore has the private key and its certificates. Raises UnusableTlsFile.

    Without a truststore the system's authorities are trusted. `versions` are TLSv1.2 and TLSv1.3, or one of them.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = checks_host_name
    allowed = sorted(_VERSIONS[version] for version in versions)
    context.minimum_version, context.maximum_version = allowed[0], allowed[-1]
    try:
        if truststore is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(truststore)
    except (OSError, ValueError) as error:
        raise UnusableTlsFile(f"{truststore} has no certificates in PEM format that can be read: {error}") from error
    if keystore is not None:
        try:
            # Without a password OpenSSL would ask for one on the terminal.
            context.load_cert_chain(keystore, password=keystore_password or "")
        except (OSError, ValueError) as refused:
            wanted = "private key and certificate in PEM format that can be read with this password"
            raise UnusableTlsFile(f"{keystore} has no {wanted}: {refused}") from refused
    return context


class TlsConnections:
    """Makes kazoo's connections; `refused` is why the last attempt failed in its handshake."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.refused: OSError | None = None
        self._context = context

    def handler(self) -> Any:
        """For one KazooClient."""
        handler = SequentialThreadingHandler()
        handler.create_connection = self._connect
        return handler

    def _connect(
        self, address: tuple[str, int], timeout: float | None = None, hostname: str | None = None, **_kazoos: Any
    ) -> ssl.SSLSocket:
        """Raises OSError."""
        plain = socket.create_connection(address, timeout)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            secured = self._context.wrap_socket(plain, server_hostname=hostname or address[0])
        except OSError as error:
            plain.close()
            self.refused = error
            raise
        self.refused = None
        return secured
