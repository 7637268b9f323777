"""The pytest fixture `kafkad_broker`: a real broker in separate processes, stopped after the test.

pytest imports this file in every run of every project, so it has few imports. If the test run is killed, the broker
stops and removes its folder by itself (see kafkad.cli.commands.dev).
"""

import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from kafkad.adapters.links.free_port import LOOPBACK, free_port

# So that failures of its suites are reported like failures of tests. This does not import kafkad.testing.
pytest.register_assert_rewrite("kafkad.testing")

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 10.0
_SCOPES = ("function", "class", "module", "package", "session")
_PORT_TAKEN_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkadBroker:
    """A running broker. `bootstrap` is the value for the clients' `bootstrap.servers`."""

    host: str
    port: int
    log_dir: Path
    pid: int

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return self.bootstrap


class BrokerDidNotStart(Exception):
    """The broker did not start; the message is its output."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kafkad", "a Kafka broker for tests")
    group.addoption(
        "--kafkad-override",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="Broker option for the fixture kafkad_broker; repeatable, overrides kafkad_overrides.",
    )
    parser.addini("kafkad_overrides", "Broker options for kafkad_broker, one key=value a line.", "linelist")
    parser.addini("kafkad_scope", f"Scope of kafkad_broker: {', '.join(_SCOPES)}.", default="function")


def _scope(fixture_name: str, config: pytest.Config) -> str:
    scope = str(config.getini("kafkad_scope"))
    if scope not in _SCOPES:
        raise pytest.UsageError(f"kafkad_scope: expected one of {', '.join(_SCOPES)}, found {scope!r}")
    return scope


@pytest.fixture(scope=_scope)  # type: ignore[arg-type]
def kafkad_broker(pytestconfig: pytest.Config) -> Iterator[KafkadBroker]:
    """A Kafka broker on a free port of 127.0.0.1, with an empty data folder that is removed afterwards."""
    yield from _serve(_overrides(pytestconfig))


@pytest.fixture(scope="session")
def kafkad_broker_session(pytestconfig: pytest.Config) -> Iterator[KafkadBroker]:
    """Like `kafkad_broker`, but one broker for the whole run, with any `kafkad_scope`."""
    yield from _serve(_overrides(pytestconfig))


def _overrides(config: pytest.Config) -> list[str]:
    return [*config.getini("kafkad_overrides"), *config.getoption("--kafkad-override")]


def _serve(overrides: Sequence[str]) -> Iterator[KafkadBroker]:
    folder = Path(tempfile.mkdtemp(prefix="kafkad-pytest-"))
    process = None
    try:
        broker, process = _start(folder, overrides)
        yield broker
    finally:
        if process is not None:
            _stop(process)
        # The broker removes its folder itself, unless it was killed.
        shutil.rmtree(folder, ignore_errors=True)


def _start(folder: Path, overrides: Sequence[str]) -> tuple[KafkadBroker, subprocess.Popen[bytes]]:
    for attempts_left in reversed(range(_PORT_TAKEN_TRIES)):
        port = free_port()
        with tempfile.TemporaryFile() as output:
            process = _spawn(folder, port, overrides, output)
            if process is not None:
                return KafkadBroker(host=LOOPBACK, port=port, log_dir=folder / "data", pid=process.pid), process
            output.seek(0)
            printed = output.read().decode(errors="replace").strip()
        # Another test run may have taken the port before the broker bound it.
        if not attempts_left or f":{port}" not in printed:
            raise BrokerDidNotStart(printed or "the broker exited without output")
    raise AssertionError("the last attempt returns or raises")


def _spawn(folder: Path, port: int, overrides: Sequence[str], output: IO[bytes]) -> subprocess.Popen[bytes] | None:
    """The process of a ready broker, or None if it exited; `output` gets its output."""
    # A previous broker that failed to start has removed the folder.
    folder.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifications:
        # The kernel chooses a short abstract name (unix(7), autobind), because paths may be too long.
        notifications.bind("")
        address = notifications.getsockname().decode().replace("\0", "@")
        process = subprocess.Popen(
            _command(folder, port, overrides),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "NOTIFY_SOCKET": address},
            # Ctrl-C in the terminal must reach pytest only, which stops the broker in the fixture's teardown.
            start_new_session=True,
        )
        is_ready = False
        try:
            is_ready = _wait_until_ready(process, notifications)
        finally:
            if not is_ready:
                _stop(process)
    return process if is_ready else None


def _command(folder: Path, port: int, overrides: Sequence[str]) -> list[str]:
    command = [sys.executable, "-m", "kafkad", "dev", "--port", str(port), "--folder", str(folder)]
    command += ["--parent", str(os.getpid())]
    for override in overrides:
        command += ["--override", override]
    return command


def _wait_until_ready(process: subprocess.Popen[bytes], notifications: socket.socket) -> bool:
    """Whether the broker sent READY=1 (sd_notify) before the process ended."""
    ended = os.pidfd_open(process.pid)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(notifications, selectors.EVENT_READ)
            selector.register(ended, selectors.EVENT_READ)
            while events := selector.select(START_TIMEOUT_S):
                if any(key.fileobj is notifications for key, _ in events):
                    if b"READY=1" in notifications.recv(4096).split(b"\n"):
                        return True
                elif process.wait() is not None:
                    return False
    finally:
        os.close(ended)
    raise BrokerDidNotStart(f"the broker was not ready after {START_TIMEOUT_S:.0f} s")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM; after `STOP_TIMEOUT_S` send SIGKILL to all processes of the broker."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            # The broker leads its own session, so this reaches only the broker and its children.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
