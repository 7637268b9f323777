"""Every string, bytes and array field of requests to the controller and to coordinators, at its longest and shortest.

One field at a time, in every version: each request is answered or malformed. No handler raises anything else, every
answer and every record can be encoded, and no string in an answer is longer than clients read. A field may name what
does not exist, so that the answer is an error that quotes it. The same with real processes is not swept yet.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import timedelta
from types import NoneType, UnionType
from typing import Any, NamedTuple, get_args, get_origin
from uuid import UUID

import pytest

from kafkad.core.controller.configs import ResourceType
from kafkad.core.coordinator.shard import Caller, Outcome
from kafkad.core.errors import KafkaError
from kafkad.core.quoting import LOGGED_CHARACTERS
from kafkad.handlers.controller.requests.apis_of_controller import DISPATCH
from kafkad.handlers.controller.requests.controller_view import ReplyAfter
from kafkad.handlers.controller.requests.refusals import APIS, UNENCODABLE, refused
from kafkad.handlers.coordinators.requests.apis_of_coordinators import COORDINATED
from kafkad.handlers.coordinators.requests.routing import topic_of
from kafkad.wire.api_table import INIT_PRODUCER_ID
from kafkad.wire.kio_codec import codec
from kafkad.wire.primitives import LONGEST_STRING, MalformedRequest
from tests.contexts import a_context
from tests.core.coordinator.memory_log import Refused
from tests.core.groups.classic_bed import ClassicBed
from tests.core.transactions.bed import TransactionBed
from tests.handlers.controller.test_handlers import Client
from tests.handlers.coordinators.transaction_calls import read
from tests.handlers.kio_calls import KioApi, versions_of

LONGEST, TOO_LONG = "a" * LONGEST_STRING, "a" * (LONGEST_STRING + 1)
TEXTS = {"name": "retention.ms", "value": "1", "group_id": "g", "protocol_type": "consumer", "member_id": ""}
"""What fields of these names have; others name the topic "t", which is there."""
NUMBERS = {
    "generation_id_or_member_epoch": -1,
    "committed_leader_epoch": -1,
    "member_epoch": 0,
    "config_operation": 0,
    "election_type": 0,
    "partitions": 0,
    "partition_index": 0,
    "partition_indexes": 0,
    "producer_epoch": 0,
}
"""Others are 1."""
LATER_MS = 600_000
LINE = 10 * LOGGED_CHARACTERS


class Swept(NamedTuple):
    """The field at this path, from the request inwards, has this value."""

    path: tuple[str, ...]
    value: Any


NOTHING = Swept((), None)


def _inner(annotation: Any) -> Any:
    if get_origin(annotation) is UnionType:
        (annotation,) = (each for each in get_args(annotation) if each is not NoneType)
    return annotation


def _made(message: Any, swept: Swept, numbers: dict[str, int], path: tuple[str, ...] = ()) -> Any:
    """The request with one element in each of its arrays."""
    values: dict[str, Any] = {}
    for field in fields(message):
        here = (*path, field.name)
        kind, inner = field.metadata.get("kafka_type"), _inner(field.type)
        is_array = get_origin(inner) is tuple
        element = _inner(get_args(inner)[0]) if is_array else inner
        value = swept.value if swept.path == here else None
        if value == () and is_array:
            values[field.name] = value
            continue
        if is_dataclass(element):
            value = _made(element, swept, numbers, here)
        elif value is None:
            value = _usual(field.name, kind, numbers)
        values[field.name] = (value,) if is_array else value
    return message(**values)


def _usual(name: str, kind: Any, numbers: dict[str, int]) -> Any:
    match kind:
        case "string":
            return TEXTS.get(name, "t")
        case "bytes":
            return b"m"
        case "bool":
            return False
        case "uuid":
            return UUID(int=1)
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(seconds=10)
    return numbers.get(name, 1)


def _swept(message: Any, *, flexible: bool, path: tuple[str, ...] = ()) -> Iterator[Swept]:
    for field in fields(message):
        here = (*path, field.name)
        kind, inner = field.metadata.get("kafka_type"), _inner(field.type)
        element = _inner(get_args(inner)[0]) if get_origin(inner) is tuple else inner
        if element is not inner:
            yield Swept(here, ())
        if is_dataclass(element):
            yield from _swept(element, flexible=flexible, path=here)
        elif kind == "string":
            yield from (Swept(here, text) for text in ("", "\0", LONGEST))
            if flexible:
                yield Swept(here, TOO_LONG)
        elif kind == "bytes":
            yield from (Swept(here, text.encode()) for text in ("", "\0", LONGEST, TOO_LONG))


def _bodies(name: str, key: int, version: int, numbers: dict[str, int]) -> Iterator[tuple[Swept, memoryview]]:
    api = KioApi(name, version)
    message = getattr(api._request, f"{api._name}Request")
    for swept in (NOTHING, *_swept(message, flexible=bool(message.__flexible__))):
        values = _made(message, swept, numbers)
        yield swept, api.request(**{each.name: getattr(values, each.name) for each in fields(message)})


def _check_strings(answer: Any) -> None:
    """Apache Kafka's clients read no longer ones in any version."""
    if isinstance(answer, str):
        assert len(answer.encode()) <= LONGEST_STRING
    elif isinstance(answer, tuple):
        for each in answer:
            _check_strings(each)
    elif is_dataclass(answer):
        for field in fields(answer):
            _check_strings(getattr(answer, field.name))


def _of(keys: Any) -> list[tuple[int, int]]:
    return [(key, version) for key in keys for version in versions_of(key)]


def _kinds(name: str) -> list[dict[str, int]]:
    if not name.endswith("configs"):
        return [NUMBERS]
    return [{**NUMBERS, "resource_type": kind} for kind in (*ResourceType, 99)]


@pytest.mark.parametrize(("key", "version"), _of(key for key in DISPATCH if key != INIT_PRODUCER_ID), ids=str)
def test_the_controller_answers_every_request(key: int, version: int) -> None:
    """Of InitProducerId it gets those without any string."""
    name, _ = APIS[key]
    api = KioApi(name, version)
    client = Client()
    client.create("t")
    context = a_context(version, api_key=key)
    for numbers in _kinds(name):
        for swept, body in _bodies(name, key, version, numbers):
            try:
                answer = DISPATCH[key](body, context, client.view)
            except MalformedRequest:
                assert swept != NOTHING
                continue
            _check_strings(api.read(answer.body if isinstance(answer, ReplyAfter) else answer))
            _check_strings(api.read(refused(key, version, body, UNENCODABLE)))


@pytest.mark.parametrize(("key", "version"), _of(COORDINATED), ids=str)
def test_a_coordinator_answers_every_request(key: int, version: int) -> None:
    name, module = COORDINATED[key].name, COORDINATED[key].module
    api = KioApi(name, version)
    of_transactions = topic_of(key) == topic_of(INIT_PRODUCER_ID)
    for swept, body in _bodies(name, key, version, NUMBERS):
        try:
            request = codec(name, version).decode(body)
        except MalformedRequest:
            assert swept != NOTHING
            continue
        _check_strings(read(api, name, module.refuse(request, version, UNENCODABLE.code)))
        for client_id in ("client", LONGEST) if swept == NOTHING else ("client",):
            bed: Any = TransactionBed() if of_transactions else ClassicBed()

            def rule(caller: Caller, request: Any = request, bed: Any = bed) -> Outcome[Any]:
                try:
                    return module.handle(request, caller, bed.shard, bed.moment)
                except KafkaError as error:
                    return Outcome(replies=[(caller.token, Refused(error.code))])

            token = bed.ask(rule, version=version, client_id=client_id)
            bed.advance(LATER_MS)
            assert [line for line in bed.lines if len(line) > LINE] == []
            reply = bed.answers.get(token)
            if isinstance(reply, Refused):
                _check_strings(read(api, name, module.refuse(request, version, reply.code)))
            elif reply is not None:
                _check_strings(read(api, name, module.pack(reply, version)))
