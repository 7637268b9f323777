"""A real ZooKeeper server (Debian package `zookeeper`) on a free port of loopback, or of another host.

Without Java or the jars the tests fail: a skipped contract test proves nothing.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from bench.brokers.ports import free_port

JARS = ("zookeeper.jar", "slf4j-log4j12.jar", "log4j-1.2.jar")
JAR_DIRECTORY = Path("/usr/share/java")


class TlsFiles(NamedTuple):
    """PEM files: the server's key and certificate, and the trusted certificates."""

    keystore: Path
    truststore: Path


class ZookeeperServer:
    def __init__(
        self,
        directory: Path,
        address: str = "127.0.0.1",
        on_host: Sequence[str] = (),
        tls: TlsFiles | None = None,
        members: str = "",
    ) -> None:
        """`on_host`: the prefix of a command on the host of the address. With `tls` the server also serves TLS.

        `members` are the lines of an ensemble: the server then serves when a quorum runs (`wait_until_serving`).
        """
        java = shutil.which("java")
        missing = [name for name in JARS if not (JAR_DIRECTORY / name).exists()]
        assert java and not missing, f"ZooKeeper can't be started: java={java}, missing jars {missing}"
        self.port = free_port()
        self._address = address
        self._directory = directory
        (directory / "zoo.cfg").write_text(
            "tickTime=200\n"
            f"dataDir={directory}/data\n"
            f"clientPort={self.port}\n"
            f"clientPortAddress={address}\n"
            "admin.enableServer=false\n"
            "4lw.commands.whitelist=srvr\n"
            "maxClientCnxns=0\n"
            "minSessionTimeout=400\n"
            "maxSessionTimeout=60000\n" + ("" if tls is None else self._tls(tls)) + members
        )
        (directory / "log4j.properties").write_text(
            "log4j.rootLogger=WARN, C\n"
            "log4j.appender.C=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.C.layout=org.apache.log4j.PatternLayout\n"
            "log4j.appender.C.layout.ConversionPattern=%d %-5p %c{1} %m%n\n"
        )
        netty = [] if tls is None else [path.name for path in JAR_DIRECTORY.glob("netty-*.jar")]
        classpath = ":".join([str(directory), *(str(JAR_DIRECTORY / name) for name in (*JARS, *netty))])
        # Without syncs: there is no power failure in tests, and a slow disk must not end sessions.
        options = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no"]
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self._command = [*on_host, java, *options, "-cp", classpath, main, str(directory / "zoo.cfg")]
        self._log = (directory / "log").open("wb")
        self.start()
        if not members:
            self.wait_until_serving()

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdout=self._log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )

    @property
    def hosts(self) -> str:
        return f"{self._address}:{self.port}"

    @property
    def tls_hosts(self) -> str:
        return f"{self._address}:{self._tls_port}"

    def _tls(self, files: TlsFiles) -> str:
        self._tls_port = free_port()
        return (
            f"secureClientPort={self._tls_port}\n"
            f"secureClientPortAddress={self._address}\n"
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
            f"ssl.keyStore.location={files.keystore}\n"
            f"ssl.trustStore.location={files.truststore}\n"
            # Clients without a certificate are served too, unauthenticated.
            "ssl.clientAuth=want\n"
        )

    def pause(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(20)

    @property
    def leads(self) -> bool:
        """Whether the server is the leader of its ensemble."""
        return b"Mode: leader" in _four_letters(self._address, self.port, b"srvr")

    def stop(self) -> None:
        self.resume()
        self._process.terminate()
        self._process.wait(20)
        self._log.close()

    def wait_until_serving(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert self._process.poll() is None, (self._directory / "log").read_text()
            if b"Mode:" in _four_letters(self._address, self.port, b"srvr"):
                return
        raise AssertionError("ZooKeeper did not serve within 60 s")


def _four_letters(address: str, port: int, word: bytes) -> bytes:
    try:
        with socket.create_connection((address, port), 1) as connection:
            connection.sendall(word)
            return connection.recv(4096)
    except OSError:
        # Not listening yet: wait for 50 ms on a socket without connections.
        with socket.socket() as nothing:
            nothing.settimeout(0.05)
            nothing.bind(("127.0.0.1", 0))
            nothing.listen()
            with suppress(TimeoutError):
                nothing.accept()
        return b""
