"""What a client gets when the reply of a coordinator can't be encoded: an error, and the worker goes on."""

import logging
from datetime import timedelta

import pytest

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.classic.messages import Joined
from kafkad.processes.worker.coordinators.coordinator_responses import AT_ONCE, PendingResponses
from kafkad.wire.api_table import JOIN_GROUP
from kafkad.wire.kio_codec import codec
from kafkad.wire.processes.coordinator_messages import CoordinatorReply, CoordinatorRequest, unpack_coordination
from tests.contexts import a_context
from tests.handlers.kio_calls import KioApi
from tests.processes.sent_frames import SentFrames

NETWORK = ProcessKey("network", 0)
JOIN = KioApi("join_group", 0)
BODY = JOIN.request(
    group_id="g", session_timeout=timedelta(seconds=10), member_id="", protocol_type="consumer", protocols=()
)


def test_a_reply_that_a_version_cant_carry_is_an_unknown_server_error(caplog: pytest.LogCaptureFixture) -> None:
    sent = SentFrames()
    answers = PendingResponses(sent)
    request = codec("join_group", 0).decode(BODY)
    asked = CoordinatorRequest(1, 0, 0, a_context(0, api_key=JOIN_GROUP), bytes(BODY))
    count = AT_ONCE + 50
    for _ in range(count):
        token = answers.add(answers.of_client(NETWORK, asked, request))
        with caplog.at_level(logging.ERROR):
            answers.reply(token, Joined(member_id="m" * 40_000))
    while answers.is_busy:
        answers.encode_queued(1)
    assert len(sent.frames) == count
    for _peer, frame in sent.frames:
        answered = unpack_coordination(frame)
        assert isinstance(answered, CoordinatorReply) and answered.body is not None
        assert int(JOIN.read(answered.body).error_code) == ErrorCode.UNKNOWN_SERVER_ERROR
    # Once a minute for each address.
    (line,) = caplog.messages
    assert "127.0.0.1: the response to JoinGroup (version 0) can't be encoded" in line
