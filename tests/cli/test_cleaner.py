"""`kafkad cleaner`: what its table says, and what is said when nobody answers."""

import json
import socket
from collections.abc import Iterator
from threading import Thread

import pytest
from click.testing import CliRunner

from kafkad.cli import main
from kafkad.cli.commands.cleaner import status_lines
from kafkad.client.compactions import LastCompaction, LogCompaction

NOW = 1_700_000_000_000
LAST = LastCompaction(
    ended_ms=NOW - 65_000,
    seconds=1.25,
    cleaned_offset=900,
    records_read=1000,
    records_written=100,
    bytes_read=4000,
    bytes_written=1000,
)
REASON = "00000000000000000000.log, byte 77: its checksum is wrong"
ROWS = [
    LogCompaction("orders", 0, "idle", 0.126, 512, LAST, None, None),
    LogCompaction("orders", 1, "quarantined", 1.0, 2048, None, REASON, NOW + 30_500),
    LogCompaction("users", 0, "quarantined", 1.0, 1, None, "policy 'compact' failed", None),
]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("\t")][:-1]


def test_each_log_is_shown_with_its_last_compaction() -> None:
    _, *rows = [cells(line) for line in status_lines(ROWS, NOW)[:4]]
    assert rows == [
        ["orders", "0", "idle", "13 %", "512", "900", "65 s ago", "1.2", "25 %"],
        ["orders", "1", "quarantined", "100 %", "2048", "-", "-", "-", "-"],
        ["users", "0", "quarantined", "100 %", "1", "-", "-", "-", "-"],
    ]


def test_what_can_not_be_compacted_is_followed_by_the_reason_and_the_next_attempt() -> None:
    assert status_lines(ROWS, NOW)[4:] == [
        f"orders-1: {REASON}; next attempt in 30 s, or when its configuration changes",
        "users-0: policy 'compact' failed; next attempt when its configuration changes",
    ]


class Listener:
    """Answers with one page after the other."""

    def __init__(self, pages: list[bytes], status: str = "200 OK") -> None:
        self._pages = pages
        self._status = status
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.place = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        for page in self._pages:
            connection, _ = self._socket.accept()
            with connection:
                connection.recv(8192)
                head = f"HTTP/1.1 {self._status}\r\nContent-Length: {len(page)}\r\nConnection: close\r\n\r\n"
                connection.sendall(head.encode() + page)

    def close(self) -> None:
        self._thread.join()
        self._socket.close()


@pytest.fixture
def listeners() -> Iterator[list[Listener]]:
    made: list[Listener] = []
    yield made
    for each in made:
        each.close()


def _page(asked: int, answered: int) -> bytes:
    row = {"topic": "orders", "partition": 0, "state": "idle", "dirty_ratio": 0.5, "cleanable_bytes": 7}
    rows = [{**row, "last": None, "failure": None, "retry_ms": None}]
    return json.dumps({"asked": asked, "answered": answered, "partitions": rows if answered else []}).encode()


def test_it_is_asked_until_the_cleaners_have_answered(listeners: list[Listener]) -> None:
    listeners.append(Listener([_page(4, 3), _page(5, 3), _page(6, 4)]))
    outcome = CliRunner().invoke(main, ["cleaner", "status", "--json", "--metrics-listener", listeners[0].place])
    assert outcome.exit_code == 0, outcome.output
    (row,) = json.loads(outcome.output)
    assert (row["topic"], row["state"], row["dirty_ratio"]) == ("orders", "idle", 0.5)


def test_a_topic_that_is_not_compacted_is_an_error(listeners: list[Listener]) -> None:
    listeners.append(Listener([_page(1, 1)]))
    outcome = CliRunner().invoke(main, ["cleaner", "status", "users", "--metrics-listener", listeners[0].place])
    assert outcome.exit_code == 1
    assert "topic 'users' is not compacted" in outcome.stderr


@pytest.mark.parametrize(
    ("page", "code", "said"),
    [(b"", "404 Not Found", "has no page /cleaner"), (b"no json", "200 OK", "can't be read")],
)
def test_whoever_is_no_metrics_listener_is_named(listeners: list[Listener], page: bytes, code: str, said: str) -> None:
    listeners.append(Listener([page], code))
    outcome = CliRunner().invoke(main, ["cleaner", "status", "--metrics-listener", listeners[0].place])
    assert outcome.exit_code == 1
    assert listeners[0].place in outcome.stderr and said in outcome.stderr
    assert outcome.stderr.count("\n") == 1


def test_a_listener_that_is_not_there_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
    outcome = CliRunner().invoke(main, ["cleaner", "status", "--metrics-listener", place])
    assert (outcome.exit_code, outcome.stderr.count("\n")) == (1, 1)


def test_a_listener_without_a_port_is_wrong_usage() -> None:
    outcome = CliRunner().invoke(main, ["cleaner", "status", "--metrics-listener", "broker1"])
    assert outcome.exit_code == 2
    assert "expected HOST:PORT" in outcome.stderr


@pytest.mark.parametrize("command", [[], ["status"], ["retry"]])
def test_help_has_an_example(command: list[str]) -> None:
    assert "kafkad cleaner " in CliRunner().invoke(main, ["cleaner", *command, "--help"]).output.partition("Example")[2]
