"""Every string, bytes and array field of requests to the controller and to coordinators, at its longest and shortest.

One field at a time, in every version: each request is answered or malformed. No handler raises anything else, every
answer and every record can be encoded, and no string in an answer is longer than clients read. A field may name what
does not exist, so that the answer is an error that quotes it. With real processes, and of all APIs:
tests/daemon/test_bad_input_fields.py.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from kafkad.core.controller.configs import ResourceType
from kafkad.core.coordinator.shard import Caller, Outcome
from kafkad.core.errors import KafkaError
from kafkad.core.quoting import LOGGED_CHARACTERS
from kafkad.handlers.controller.requests.apis_of_controller import DISPATCH
from kafkad.handlers.controller.requests.controller_view import ResponseAfter
from kafkad.handlers.controller.requests.rejections import APIS, UNENCODABLE, error_response
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
from tests.tools.field_sweep import ARRAY, LONGEST, NOTHING, STRING, TOO_LONG, Count, Swept, made, swept_fields

TEXTS: dict[str, Any] = {
    "name": "retention.ms",
    "value": "1",
    "group_id": "g",
    "protocol_type": "consumer",
    "member_id": "",
}
"""What fields of these names have; other strings name the topic "t", which is there."""
LATER_MS = 600_000
LINE = 10 * LOGGED_CHARACTERS


def _swept(message: Any) -> Iterator[Swept]:
    texts = ("", "\0", LONGEST, TOO_LONG)
    for path, kind, _ in swept_fields(message):
        if kind == ARRAY:
            yield Swept(path, Count(0))
        elif kind == STRING:
            yield from (Swept(path, text) for text in texts if text is not TOO_LONG or message.__flexible__)
        else:
            yield from (Swept(path, text.encode()) for text in texts)


def _bodies(name: str, key: int, version: int, numbers: dict[str, int]) -> Iterator[tuple[Swept, memoryview]]:
    api = KioApi(name, version)
    message = getattr(api._request, f"{api._name}Request")
    for swept in (NOTHING, *_swept(message)):
        values = made(message, swept, {**TEXTS, **numbers})
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
        return [{}]
    return [{"resource_type": kind} for kind in (*ResourceType, 99)]


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
            _check_strings(api.read(answer.body if isinstance(answer, ResponseAfter) else answer))
            _check_strings(api.read(error_response(key, version, body, UNENCODABLE)))


@pytest.mark.parametrize(("key", "version"), _of(COORDINATED), ids=str)
def test_a_coordinator_answers_every_request(key: int, version: int) -> None:
    name, module = COORDINATED[key].name, COORDINATED[key].module
    api = KioApi(name, version)
    of_transactions = topic_of(key) == topic_of(INIT_PRODUCER_ID)
    for swept, body in _bodies(name, key, version, {}):
        try:
            request = codec(name, version).decode(body)
        except MalformedRequest:
            assert swept != NOTHING
            continue
        _check_strings(read(api, name, module.reject(request, version, UNENCODABLE.code)))
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
                _check_strings(read(api, name, module.reject(request, version, reply.code)))
            elif reply is not None:
                _check_strings(read(api, name, module.pack(reply, version)))
