"""Whatever is wrong at the other end is one line on stderr and exit code 1, never a traceback."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from click.testing import CliRunner, Result

from bench.brokers.ports import free_port
from kafkad.cli import main

ASKING = [
    ["topics", "list"],
    ["topics", "describe", "demo"],
    ["topics", "create", "demo"],
    ["topics", "delete", "demo"],
    ["groups", "list"],
    ["groups", "describe"],
    ["groups", "delete", "demo"],
    ["groups", "delete-offsets", "demo", "--topic", "t"],
    ["groups", "reset-offsets", "demo", "--all-topics", "--to-latest"],
    ["transactions", "list"],
    ["transactions", "describe", "id"],
    ["transactions", "find-hanging", "--topic", "demo"],
    ["transactions", "abort", "--topic", "demo", "--partition", "0", "--start-offset", "0"],
    ["brokers", "list"],
    ["reassign", "list"],
    ["reassign", "cancel", "demo"],
    ["reassign", "start", "demo", "--to", "1,2"],
    ["elect-leaders"],
    ["produce", "demo"],
    ["consume", "demo"],
]


def _ask(arguments: list[str], bootstrap: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--bootstrap-server", bootstrap, "--timeout", "0.5"])


@contextmanager
def _stranger(answer: bytes | None) -> Iterator[str]:
    """A listener that sends `answer` to whoever connects and closes; None keeps silent."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        done = threading.Event()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                if answer is None:
                    done.wait(60)
                    return
                connection.recv(4096)
                connection.sendall(answer)
                # A close with bytes unread is a reset: end the answer, and read until the client has gone, which it may
                # be already.
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(4096):
                        pass

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            done.set()
            thread.join()


@pytest.mark.parametrize("arguments", ASKING, ids=" ".join)
def test_nobody_listening_is_one_line_and_exit_code_1(arguments: list[str]) -> None:
    outcome = _ask(arguments, f"127.0.0.1:{free_port()}")
    assert outcome.exit_code == 1
    assert outcome.stdout == ""
    assert len(outcome.stderr.splitlines()) == 1
    assert "no broker responds at 127.0.0.1:" in outcome.stderr


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "text that starts with 'HTTP'"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "TLS alert"),
        (b"\xff\xff\xff\xf0", "a response length of -16"),
        (b"", "closed the connection without a response"),
        (b"\x00\x00\x00\x20\x00", "closed the connection without a response"),
        (b"\x00\x00\x00\x04\x00\x00\x00\x07", "returned error -1 for ApiVersions 3"),
        (b"\x00\x00\x00\x06\x00\x00\x00\x01\x00\x23", "returned error 35 for ApiVersions 3"),
        (b"\x00\x00\x00\x07\x00\x00\x00\x01\x00\x00\xff", "a response that can't be read"),
    ],
)
def test_stranger_at_the_address_is_described_in_one_line(answer: bytes, said: str) -> None:
    with _stranger(answer) as bootstrap:
        outcome = _ask(["topics", "list"], bootstrap)
    assert outcome.exit_code == 1
    assert len(outcome.stderr.splitlines()) == 1
    assert said in outcome.stderr


def test_silent_peer_is_given_up_after_the_timeout() -> None:
    with _stranger(None) as bootstrap:
        outcome = _ask(["topics", "list"], bootstrap)
    assert outcome.exit_code == 1
    assert "timed out" in outcome.stderr


@pytest.mark.parametrize("bootstrap", ["", "nowhere:port", "host:0", "host:70000", ":9092", ","])
def test_bootstrap_server_that_is_no_address_is_named(bootstrap: str) -> None:
    outcome = _ask(["topics", "list"], bootstrap)
    assert outcome.exit_code == 1
    assert "expected host:port as bootstrap server" in outcome.stderr


@pytest.mark.parametrize("host", ["a..b", "x" * 300])
def test_what_can_not_be_a_name_of_a_host_is_one_line(host: str) -> None:
    outcome = _ask(["topics", "list"], f"{host}:9092")
    assert (outcome.exit_code, len(outcome.stderr.splitlines())) == (1, 1)
    assert "unknown host name" in outcome.stderr


def test_the_protocol_may_stand_before_the_address() -> None:
    """As in the options of Kafka's clients."""
    outcome = _ask(["topics", "list"], f"PLAINTEXT://127.0.0.1:{free_port()}")
    assert "no broker responds at 127.0.0.1:" in outcome.stderr
