"""TLS to ZooKeeper: trusted authorities, and the certificate of this broker.

kazoo itself would also trust the system's authorities, and choose the versions.
"""

import socket
import ssl
from collections.abc import Callable, Sequence

from kazoo.handlers.threading import KazooTimeoutError

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


class UnusableTlsFile(Exception):
    """A file with keys or certificates can't be read; the message has its path."""


def tls_context(
    *,
    keystore: str | None,
    keystore_password: str | None,
    truststore: str | None,
    checks_host_name: bool,
    versions: Sequence[str],
) -> ssl.SSLContext:
    """Files have PEM format; a keystore has the private key and its certificates. Raises UnusableTlsFile.

    The default truststore is the system's. `versions` are TLSv1.2 and TLSv1.3, or one of them.
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
            # Without a password OpenSSL would prompt for one on the terminal.
            context.load_cert_chain(keystore, password=keystore_password or "")
        except (OSError, ValueError) as unreadable:
            required = "private key and certificate in PEM format that can be read with this password"
            raise UnusableTlsFile(f"{keystore} has no {required}: {unreadable}") from unreadable
    return context


class TlsConnections:
    """Makes TLS connections; `error` is the error of the last failed handshake."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.error: OSError | None = None
        self._context = context

    def secured(
        self, plain: socket.socket, hostname: str, wait: Callable[[list[ssl.SSLSocket], list[ssl.SSLSocket]], None]
    ) -> ssl.SSLSocket:
        """The connection after its handshake. `wait` waits for readable and writable sockets.

        Raises OSError, and the errors of `wait`.
        """
        secured = self._context.wrap_socket(plain, server_hostname=hostname, do_handshake_on_connect=False)
        try:
            while True:
                try:
                    secured.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    wait([secured], [])
                except ssl.SSLWantWriteError:
                    wait([], [secured])
        except OSError as error:
            secured.close()
            self.error = error
            raise
        except KazooTimeoutError:
            secured.close()
            raise
        self.error = None
        return secured
