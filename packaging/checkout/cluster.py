"""`make cluster`: run one ZooKeeper and some brokers on this machine until Ctrl-C.

ZooKeeper is Debian's. Each broker is a separate process group, so that one can be killed alone. A killed broker is
restarted after a delay, as by a service manager. At Ctrl-C the brokers stop one after the other, and ZooKeeper last.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

JARS = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-log4j12.jar:/usr/share/java/log4j-1.2.jar"
WITHIN_S = 120.0
AGAIN_S = 15.0
"""The delay before a killed broker is restarted; its session ends before."""
SESSION_MS = 6_000

ZOO_CFG = """\
tickTime=500
dataDir={folder}/data
clientPort={port}
clientPortAddress=127.0.0.1
admin.enableServer=false
4lw.commands.whitelist=srvr
maxClientCnxns=0
"""
LOG4J = """\
log4j.rootLogger=WARN, C
log4j.appender.C=org.apache.log4j.ConsoleAppender
log4j.appender.C.layout=org.apache.log4j.PatternLayout
log4j.appender.C.layout.ConversionPattern=%d %-5p %c{1} %m%n
"""


class Stop(Exception):
    """Ctrl-C, or SIGTERM."""


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise Stop


class Service:
    """A child process with a log file, in a separate process group."""

    def __init__(self, name: str, command: list[str], folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = command
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.child = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def stop(self) -> None:
        if self.child.poll() is None:
            self.child.terminate()
            self.child.wait()

    def require(self) -> None:
        if self.child.poll() is not None:
            sys.exit(f"kafkad: {self.name} ended with exit code {self.child.returncode}:\n{_end_of(self.log)}")


def _end_of(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-10:])


def zookeeper(folder: Path, port: int) -> Service:
    home = folder / "zookeeper"
    home.mkdir(parents=True, exist_ok=True)
    (home / "zoo.cfg").write_text(ZOO_CFG.format(folder=home, port=port))
    (home / "log4j.properties").write_text(LOG4J)
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    flags = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    service = Service("zookeeper", ["java", *flags, "-cp", f"{home}:{JARS}", main, str(home / "zoo.cfg")], folder)
    deadline = time.monotonic() + WITHIN_S
    while not _is_serving(port):
        service.require()
        if time.monotonic() > deadline:
            sys.exit(f"kafkad: ZooKeeper is not ready:\n{_end_of(service.log)}")
        time.sleep(0.1)
    return service


def _is_serving(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            connection.sendall(b"srvr")
            return b"Mode:" in connection.recv(1 << 16)
    except OSError:
        return False


def broker(number: int, folder: Path, port: int, zookeeper_port: int, count: int) -> Service:
    copies = min(3, count)
    options = {
        "broker.id": str(number),
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(folder / f"broker-{number}"),
        "zookeeper.connect": f"127.0.0.1:{zookeeper_port}/kafkad",
        "zookeeper.session.timeout.ms": str(SESSION_MS),
        "default.replication.factor": str(copies),
        "min.insync.replicas": str(max(1, copies - 1)),
        "offsets.topic.replication.factor": str(copies),
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.min.isr": str(max(1, copies - 1)),
        "kafkad.metrics.listener": "",
    }
    overrides = [word for name, value in options.items() for word in ("--override", f"{name}={value}")]
    return Service(f"broker-{number}", [sys.executable, "-m", "kafkad", "start", *overrides], folder)


def wait_until_ready(services: Mapping[int, Service]) -> None:
    deadline = time.monotonic() + WITHIN_S
    for number, service in services.items():
        while f"broker {number} is registered" not in service.log.read_text(errors="replace"):
            service.require()
            if time.monotonic() > deadline:
                sys.exit(f"kafkad: {service.name} is not ready:\n{_end_of(service.log)}")
            time.sleep(0.1)


def print_summary(brokers: Mapping[int, Service], port: int, folder: Path) -> None:
    servers = ",".join(f"127.0.0.1:{port + at}" for at in range(len(brokers)))
    first = next(iter(brokers.values())).child.pid
    lines = [
        f"a cluster of {len(brokers)} brokers and one ZooKeeper is ready, Ctrl-C stops it",
        f"  bootstrap   {servers}",
        f"  data, logs  {folder}",
        f"  try         echo hello | kcat -P -b {servers} -t demo && kcat -C -b {servers} -t demo -e",
        f"  break it    kill -9 -{first}         (all of broker 1; it is restarted after {AGAIN_S:.0f} s)",
        f"  watch       kcat -L -b {servers}      (leaders and in-sync replicas)",
    ]
    print("\n".join(lines), flush=True)


def restart_ended(brokers: Mapping[int, Service]) -> None:
    """Restart brokers that have ended, until Ctrl-C."""
    restart_at: dict[int, float] = {}
    while True:
        now = time.monotonic()
        for number, service in brokers.items():
            if service.child.poll() is not None and number not in restart_at:
                print(f"broker {number} has ended; restarting it in {AGAIN_S:.0f} s", flush=True)
                restart_at[number] = now + AGAIN_S
            elif restart_at.get(number, now + 1) <= now:
                del restart_at[number]
                service.start()
                print(f"broker {number} is starting, with process group {service.child.pid}", flush=True)
        time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument(
        "--port", type=int, default=9092, help="Port of the first broker; the others have the following ports."
    )
    parser.add_argument("--zookeeper-port", type=int, default=2181)
    parser.add_argument("--data", type=Path, default=Path("data/cluster"))
    options = parser.parse_args()
    folder = options.data.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    started: list[Service] = []
    try:
        started.append(zookeeper(folder, options.zookeeper_port))
        brokers: dict[int, Service] = {}
        for at in range(options.brokers):
            log = folder / f"broker-{at + 1}.log"
            log.unlink(missing_ok=True)
            brokers[at + 1] = broker(at + 1, folder, options.port + at, options.zookeeper_port, options.brokers)
            started.append(brokers[at + 1])
        wait_until_ready(brokers)
        print_summary(brokers, options.port, folder)
        restart_ended(brokers)
    except Stop:
        print(f"stopping {len(started) - 1} broker(s), then ZooKeeper", flush=True)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for service in reversed(started):
            service.stop()


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
