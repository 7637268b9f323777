"""The rules of transactions beside Apache Kafka's: long random conversations, and the same answer to every request."""

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from bench.brokers.apache import ApacheKafka
from bench.brokers.daemon import Kafkad
from bench.brokers.processes import eventually
from tests.amounts import amount
from tests.compat.transaction_sides import BrokerSide, Names, OurSide, Side, plain, quoted
from tests.handlers.kio_calls import KioApi
from tests.tools.raw_requests import RawClient, create_topic

CONVERSATIONS = amount("transaction_conversations")
REQUESTS = 25
TIMEOUTS = amount("transaction_timeouts")
TIMEOUT = timedelta(milliseconds=60_000)
SHORT_TIMEOUT = timedelta(milliseconds=100)

Identity = tuple[int, int]


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    often = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "50"}
    with ApacheKafka(tmp_path_factory.mktemp("rules"), often) as broker:
        with RawClient(broker.port) as client:
            client.ask(create_topic("t", 10))
            client.ask(create_topic("u", 2))
        yield broker


@pytest.fixture
def their_side(apache: ApacheKafka) -> Iterator[BrokerSide]:
    side = BrokerSide(apache.port)
    side.wake()
    yield side
    side.close()


class Conversation:
    """One transactional id, asked of both sides. What each said about producer ids and epochs is asked with again.

    At level 0 nothing is asked that clients don't: Apache Kafka never answers an id again whose client spoke version 2.
    """

    def __init__(self, name: str, random: Random, level: int, *sides: Side) -> None:
        self._level = level
        self._name = name
        self._random = random
        self._sides = sides
        self._names = [Names() for _ in sides]
        self._identities: list[list[Identity]] = [[(7_000_000, 0)] for _ in sides]
        self.history: list[str] = []
        self._last_said: list[Any] = []

    def knows(self, producer_id: int, epoch: int) -> None:
        """Somebody has this producer id and epoch, on both sides."""
        for rows in self._identities:
            rows.append((producer_id, epoch))

    def step(self) -> None:
        choices = (self._init, self._add, self._add, self._add_offsets, self._end, self._end, self._list)
        rule = self._init if not self.history and self._random.random() < 0.8 else self._random.choice(choices)
        rule()
        for side in self._sides:
            side.settle(self._name)
        self._compare("describe_transactions", 0, [{"transactional_ids": (self._name,)} for _ in self._sides])

    def time_out(self) -> None:
        """A producer begins a transaction and is not heard of again."""
        values = {"transactional_id": self._name, "transaction_timeout": SHORT_TIMEOUT}
        self._learn(self._compare("init_producer_id", 5, [values for _ in self._sides]))
        producers = [rows[-1] for rows in self._identities]
        values_of = [
            {"v3_and_below_transactional_id": self._name, "topics": {"t": (0, 3)}}
            | {"v3_and_below_producer_id": producer_id, "v3_and_below_producer_epoch": epoch}
            for producer_id, epoch in producers
        ]
        self._compare("add_partitions_to_txn", 3, values_of)
        for side in self._sides:
            side.expire(self._name, SHORT_TIMEOUT)

    def _who(self) -> list[dict[str, Any]]:
        """The same producer on each side: mostly the last one that was told, and its epoch."""
        random, known = self._random, len(self._identities[0])
        at = known - 1 if random.random() < 0.75 else random.randrange(known)
        shift = random.choice((0, 0, 0, 0, 0, -1, 1))
        return [
            {"producer_id": rows[at][0], "producer_epoch": max(0, rows[at][1] + shift)} for rows in self._identities
        ]

    def _init(self) -> None:
        version = self._random.randint(0, 5)
        named = version >= 3 and self._random.random() < 0.6
        who = self._who() if named else [{} for _ in self._sides]
        values = [{"transactional_id": self._name, "transaction_timeout": TIMEOUT, **each} for each in who]
        self._learn(self._compare("init_producer_id", version, values))

    def _add(self) -> None:
        version = self._random.randint(0, 5)
        topics = self._random.choice(
            ({"t": (0,)}, {"t": (0, 1), "u": (1,)}, {"t": (2,), "u": (2,)}, {"v": (0,), "t": (1,)})
        )
        rows = [{"transactional_id": self._name, **who, "topics": topics} for who in self._who()]
        if version >= 4:
            verify_only = self._level == 0 or self._random.random() < 0.5
            values = [{"transactions": [{**row, "verify_only": verify_only}]} for row in rows]
        else:
            values = [
                {f"v3_and_below_{key}" if key != "topics" else key: each for key, each in row.items()} for row in rows
            ]
        self._compare("add_partitions_to_txn", version, values)

    def _add_offsets(self) -> None:
        group_id = f"group-{self._random.randrange(1_000)}"
        values = [{"transactional_id": self._name, **who, "group_id": group_id} for who in self._who()]
        self._compare("add_offsets_to_txn", self._random.randint(0, 4), values)

    def _end(self) -> None:
        committed = self._random.random() < 0.6
        values = [{"transactional_id": self._name, **who, "committed": committed} for who in self._who()]
        version = self._random.choice((0, 1, 2, 3, 4) if self._level == 0 else (0, 1, 2, 3, 4, 5, 5, 5, 5))
        self._learn(self._compare("end_txn", version, values))

    def _list(self) -> None:
        states = self._random.choice(((), ("Ongoing",), ("Empty", "CompleteAbort"), ("Nonsense",)))
        values = {"state_filters": states, "transactional_id_pattern": quoted(self._name)}
        self._compare("list_transactions", 2, [values for _ in self._sides])

    def _compare(self, api: str, version: int, values: list[dict[str, Any]]) -> list[Any]:
        responses = [side.ask(api, version, **each) for side, each in zip(self._sides, values, strict=True)]
        said = [plain(response, names) for response, names in zip(responses, self._names, strict=True)]
        if said != self._last_said:
            self.history.append(f"{api} {version} {values[-1]}\n    -> {said[0]}")
            self._last_said = said
        assert said[0] == said[1], "\n".join([*self.history, f"    ours {said[1]}"])
        return responses

    def _learn(self, responses: list[Any]) -> None:
        told = [(int(each.producer_id), int(each.producer_epoch)) for each in responses if hasattr(each, "producer_id")]
        if told and told[0][0] >= 0:
            for rows, identity in zip(self._identities, told, strict=True):
                rows.append(identity)


def finalize(side: BrokerSide, level: int) -> None:
    """Set transaction.version, up or down."""
    kio = KioApi("update_features", 1)
    for upgrade_type in (1, 2):
        update = kio.part(
            "FeatureUpdateKey", feature="transaction.version", max_version_level=level, upgrade_type=upgrade_type
        )
        side.ask("update_features", 1, feature_updates=(update,), timeout=timedelta(seconds=30), validate_only=False)


def conversation(kind: str, level: int, number: int, their_side: BrokerSide) -> Conversation:
    """The transactional id is new at each call: a test that runs again meets nothing of its first run."""
    name = f"{kind}-{level}-{number}-{uuid4().hex[:8]}"
    return Conversation(name, Random(f"{level}-{number}"), level, their_side, OurSide(transaction_version=level))


@pytest.mark.parametrize("level", [2, 0, 1])
def test_both_answer_the_same(their_side: BrokerSide, level: int) -> None:
    finalize(their_side, level)
    for number in range(CONVERSATIONS):
        talk = conversation("level", level, number, their_side)
        for _ in range(REQUESTS):
            talk.step()


@pytest.mark.parametrize("level", [2, 0])
def test_both_answer_the_same_after_a_timeout(their_side: BrokerSide, level: int) -> None:
    finalize(their_side, level)
    for number in range(TIMEOUTS):
        eventually(
            lambda number=number: is_answered_alike(conversation("timeout", level, number, their_side)),  # type: ignore[misc]
            what="the real broker has answered before the next transaction timed out",
        )


def is_answered_alike(talk: Conversation) -> bool:
    """False if that is not known: the clock of the real broker has gone on, and ended another transaction."""
    talk.time_out()
    began = time.monotonic()
    try:
        for _ in range(5):
            talk.step()
    except AssertionError:
        if time.monotonic() - began < SHORT_TIMEOUT.total_seconds():
            raise
        return False
    return True


IDS = ("billing-1", "billing-22", "Billing-1", "a.b", "axb", "a b", "a{,2}", "été", "_x9", "a]-")
PATTERNS = (
    *("billing-.*", "(?i)billing-1", "(?i:B)illing-\\d", "billing", "^billing-1$", "bill^ing-1", ".*-1|a.b", "a\\.b"),
    *(
        "[[:alpha:]_].*",
        "[^a-z].*",
        "[[:^digit:]]+",
        "\\w+",
        "\\W",
        ".\\s.",
        "a{,2}",
        "a[x.]b",
        "[a\\]-]+",
        "\\Qa.b\\E",
    ),
    *(
        "(a|b).*?",
        "(?:é|t)+",
        "(?P<n>a).b",
        "(?<n>a).b",
        "b(il{2}){1}ing-2{1,2}",
        "\\x61.b",
        "\\x{61}.b",
        "(?s)a.b",
        "()",
    ),
    *("(", ")", "[", "*", "a**", "a*{2}", "a{1001}", "a{2,1}", "\\1", "(?=a)", "(?!a)", "\\", "[z-a]", "\\q", "(?P=n)"),
    *("a|*", "(|*)", "x{2}{3}", "[[:odd:]]", "\\x{110000}", "(?", "+", "?a"),
)


def test_patterns_match_what_they_match_there(their_side: BrokerSide) -> None:
    ours = OurSide()
    sides = (their_side, ours)
    for name in IDS:
        for side in sides:
            side.ask("init_producer_id", 4, transactional_id=f"{name}", transaction_timeout=TIMEOUT)
    for pattern in PATTERNS:
        found = []
        for side in sides:
            answer = side.ask("list_transactions", 2, state_filters=("Empty",), transactional_id_pattern=pattern)
            listed = {str(row.transactional_id) for row in answer.transaction_states} & set(IDS)
            found.append((answer.error_code.name, listed))
        assert found[0] == found[1], pattern


def test_a_whole_broker_answers_the_same(their_side: BrokerSide, tmp_path: Path) -> None:
    """The same over the network, with real markers in real logs."""
    finalize(their_side, 2)
    with Kafkad(tmp_path / "kafkad") as kafkad:
        with RawClient(kafkad.port) as client:
            client.ask(create_topic("t", 10))
            client.ask(create_topic("u", 2))
        our_side = BrokerSide(kafkad.port)
        our_side.wake()
        for number in range(CONVERSATIONS):
            talk = Conversation(f"whole-{number}", Random(number), 2, their_side, our_side)
            for _ in range(REQUESTS):
                talk.step()
        our_side.close()
