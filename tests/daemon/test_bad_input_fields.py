"""Every string, bytes and array field of every API and version, one at a time, at its limits: no process ends, and
each request is answered, or loses its connection.

It needs real processes, as it is about processes that go on, and about limits on a real connection. Per commit it sends
one of `swept_fields_step` requests, others each time. In one process, with what is in each answer:
tests/handlers/test_long_strings.py.
"""

import selectors
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Any, NamedTuple
from zlib import crc32

import pytest

from bench.brokers.processes import WITHIN_S, eventually
from kafkad.wire import api_table
from kafkad.wire.api_table import APIS
from kafkad.wire.primitives import LONGEST_STRING
from kafkad.wire.request_limits import most_elements
from tests.amounts import amount, first_seed
from tests.daemon.served import Served
from tests.handlers.kio_calls import KioApi, versions_of
from tests.tools.field_sweep import (
    ARRAY,
    LONGEST,
    NOTHING,
    STRING,
    TOO_LONG,
    Count,
    Swept,
    SweptField,
    made,
    swept_fields,
)
from tests.tools.raw_requests import batch, create_topic, heartbeat

STEP = amount("swept_fields_step")
AT_ONCE = 16
MOST_BYTES = 2 << 20
"""Of a request."""
OVERHEAD = 2_000
"""Of a request with one large field."""
INVALID = "<<invalid>>"
"""Becomes as many bytes that are no UTF-8."""
OVERLONG = "<<overlong>>"
"""Becomes a string that is one byte longer than a length of 16 bits says."""
SPARE_ELEMENTS = 20
"""Of the largest array: the others of its request have fewer."""
VALUES: Mapping[str, Any] = {
    "member_id": "",
    "protocol_type": "consumer",
    "records": batch(),
    "acks": 1,
    "replica_id": -1,
    "replica_epoch": -1,
    "max_wait": timedelta(0),
    "isolation_level": 0,
    "session_id": 0,
    "session_epoch": -1,
    "current_leader_epoch": -1,
    "last_fetched_epoch": -1,
    "fetch_offset": 0,
    "log_start_offset": -1,
    "timestamp": -1,
    "num_partitions": -1,
    "replication_factor": -1,
    "resource_type": 2,
    "key_type": 0,
    "partition": 0,
    "index": 0,
}
"""What fields of these names have, as in a request that is carried out; strings of others name the topic "t"."""
OF_API: Mapping[int, Mapping[str, Any]] = {
    api_table.PRODUCE: {"transactional_id": None},
    api_table.DELETE_TOPICS: {"topic_names": "nothing", "name": "nothing"},
    api_table.ALTER_CONFIGS: {"name": "retention.ms", "value": "600000"},
    api_table.INCREMENTAL_ALTER_CONFIGS: {"name": "retention.ms", "value": "600000"},
    api_table.CREATE_TOPICS: {"value": "600000"},
    api_table.JOIN_GROUP: {"name": "range"},
}


class Case(NamedTuple):
    """One request; `label` says what is odd in it."""

    label: str
    frame: bytes


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    overrides = {
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
        "socket.request.max.bytes": str(MOST_BYTES),
    }
    with Served(tmp_path_factory.mktemp("fields"), overrides) as broker:
        for kind in (0, 1):
            eventually(partial(_has_coordinator, broker, kind), what="there are coordinators")
        yield broker


def _has_coordinator(served: Served, kind: int) -> bool:
    api = KioApi("find_coordinator", 1)
    with served.connect() as client:
        client.send(_frame(api_table.FIND_COORDINATOR, 1, bytes(api.request(key="g", key_type=kind))))
        return int(api.read(client.reply()[1]).error_code) == 0


def _frame(key: int, version: int, body: bytes, client_id: bytes = b"\0\x05sweep") -> bytes:
    tags = b"\0" if version >= APIS[key].flexible_from else b""
    head = struct.pack(">hhi", key, version, 7) + client_id + tags
    return struct.pack(">i", len(head) + len(body)) + head + body


def _topic_id(served: Served) -> Any:
    api = KioApi("metadata", 10)
    body = bytes(
        api.request(
            topics=None,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
    )
    with served.connect() as client:
        client.send(_frame(api_table.METADATA, 10, body))
        (found,) = (each.topic_id for each in api.read(client.reply()[1][1:]).topics if each.name == "t")
    return found


def _kio_name(key: int) -> str:
    name = APIS[key].name
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in name)[1:]


def _odd_values(field: SweptField, key: int, number: int, *, is_flexible: bool) -> Iterator[tuple[str, Any]]:
    """With what they are called. Texts have a number in them: what they name is theirs."""
    if field.is_nullable:
        yield "null", None
    if field.kind == ARRAY:
        most = most_elements(key) - SPARE_ELEMENTS
        for count in (0, LONGEST_STRING, LONGEST_STRING + 1, most):
            yield f"{count} elements", Count(count)
    elif field.kind == STRING:
        yield "empty", ""
        yield "NUL", f"\0{number}"
        yield "longest", f"{number:09}{LONGEST[9:]}"
        yield "too long", TOO_LONG if is_flexible else OVERLONG
        yield "no UTF-8", INVALID
    else:
        yield "empty", b""
        yield "NUL", b"\0"
        for size in (LONGEST_STRING, LONGEST_STRING + 1, MOST_BYTES - OVERHEAD):
            yield f"{size} bytes", bytes(size)
        yield "no UTF-8", b"\xff\xfe"


def _encoded(api: KioApi, request: Any) -> bytes:
    body = bytes(api.request(**{name: getattr(request, name) for name in type(request).__dataclass_fields__}))
    overlong = struct.pack(">h", len(OVERLONG)) + OVERLONG.encode()
    body = body.replace(overlong, struct.pack(">H", LONGEST_STRING + 1) + TOO_LONG.encode())
    return body.replace(INVALID.encode(), b"\xff" * len(INVALID))


def _is_chosen(label: str) -> bool:
    return crc32(label.encode()) % STEP == first_seed() % STEP


def _cases(key: int, topic_id: Any) -> Iterator[Case]:
    for version in versions_of(key):
        api = KioApi(_kio_name(key), version)
        message = getattr(api._request, f"{api._name}Request")
        group = f"g{version}"
        values = {**VALUES, **OF_API.get(key, {}), "topic_id": topic_id, "group_id": group, "group": group}
        where = f"{APIS[key].name} {version}"
        yield Case(where, _frame(key, version, _encoded(api, made(message, NOTHING, values))))
        for number, field in enumerate(swept_fields(message), 1_000 * version):
            for name, value in _odd_values(field, key, number, is_flexible=bool(message.__flexible__)):
                label = f"{where}, {'.'.join(field.path)}: {name}"
                if _is_chosen(label):
                    group = f"g{number} {name}"
                    own = {**values, "group_id": group, "group": group}
                    body = _encoded(api, made(message, Swept(field.path, value), own))
                    yield Case(label, _frame(key, version, body))
        for name, client_id in _client_ids():
            label = f"{where}, client id: {name}"
            if _is_chosen(label):
                group = f"g{version} {name}"
                body = _encoded(api, made(message, NOTHING, {**values, "group_id": group, "group": group}))
                yield Case(label, _frame(key, version, body, client_id))


def _client_ids() -> Iterator[tuple[str, bytes]]:
    """In headers; the longest with a length that is none."""
    yield "null", b"\xff\xff"
    for name, text in (("empty", b""), ("NUL", b"\0"), ("longest", LONGEST.encode()), ("no UTF-8", b"\xff\xfe")):
        yield name, struct.pack(">h", len(text)) + text
    yield "too long", struct.pack(">H", LONGEST_STRING + 1) + TOO_LONG.encode()


def _unanswered(served: Served, cases: list[Case]) -> list[str]:
    """Send each from an address of its own, so that no line about it is left out; those that are neither answered nor
    closed.
    """
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for case in cases:
            source = f"127.{crc32(case.label.encode()) % 2**24 >> 16 | 1}.{len(cases)}.{cases.index(case) + 1}"
            client = stack.enter_context(served.connect(patience_s=WITHIN_S, source=source))
            with suppress(ConnectionError):
                client.send(case.frame)
            selector.register(client.sock, selectors.EVENT_READ, case.label)
        while selector.get_map():
            ready = selector.select(WITHIN_S)
            if not ready:
                break
            for key, _ in ready:
                selector.unregister(key.fileobj)
        return [key.data for key in selector.get_map().values()]


def _others_are_served(served: Served) -> bool:
    """By every kind of process."""
    with served.connect() as client:
        is_there = b"\x00\x01t\x00\x24" in client.ask(create_topic("t"))
        return is_there and bool(client.ask(heartbeat("g"))) and served.is_serving()


@pytest.mark.timeout(600 + 3_000 // STEP)
@pytest.mark.parametrize("key", sorted(APIS), ids=lambda key: APIS[key].name)
def test_no_field_ends_a_process_or_leaves_its_request_unanswered(served: Served, key: int) -> None:
    before = [each.pid for each in served.broker.tree()]
    cases = _cases(key, _topic_id(served))
    while some := list(islice(cases, AT_ONCE)):
        assert _unanswered(served, some) == []
        labels = [case.label for case in some]
        assert [each.pid for each in served.broker.tree()] == before, f"a process ended over one of {labels}"
        assert served.lines("exiting: unexpected error") == served.lines(") failed: ") == [], labels
    eventually(lambda: _others_are_served(served), what="others are served")
