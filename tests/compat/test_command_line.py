"""kafkad's own client commands, against a real broker of either make, beside kcat."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest

from bench.brokers.broker import RunningBroker
from bench.brokers.processes import WITHIN_S

NewTopic = Callable[[str], str]
KAFKAD = [sys.executable, "-m", "kafkad"]


class CommandLine:
    """Runs `kafkad …` against one broker."""

    def __init__(self, broker: RunningBroker) -> None:
        self.bootstrap = broker.bootstrap

    def command(self, *arguments: str) -> list[str]:
        return [*KAFKAD, *arguments, "--bootstrap-server", self.bootstrap]

    def run(self, *arguments: str, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(self.command(*arguments), input=stdin, capture_output=True, timeout=WITHIN_S)

    def output(self, *arguments: str, stdin: bytes = b"") -> bytes:
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr.decode()
        assert done.stderr == b""
        return done.stdout

    def consumed(self, topic: str, *arguments: str) -> bytes:
        return self.output("consume", topic, "--from-beginning", "--exit-at-end", *arguments)

    def refusal(self, *arguments: str, code: int = 1) -> str:
        done = self.run(*arguments)
        assert done.returncode == code
        assert done.stdout == b""
        lines = done.stderr.decode().splitlines()
        assert len(lines) == 1, lines
        return lines[0]


@pytest.fixture
def kafkad(broker: RunningBroker) -> CommandLine:
    return CommandLine(broker)


def _kcat(kafkad: CommandLine, *arguments: str, stdin: bytes = b"") -> bytes:
    command: Sequence[str] = ["kcat", "-b", kafkad.bootstrap, *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=WITHIN_S, check=True).stdout


def test_topic_is_created_listed_described_and_deleted(kafkad: CommandLine, new_topic: NewTopic) -> None:
    topic = new_topic("lived")
    created = kafkad.output("topics", "create", topic, "--partitions", "3", "--config", "retention.ms=1000000")
    assert created == f"Created topic {topic}.\n".encode()
    assert topic in kafkad.output("topics", "list").decode().split("\n")
    assert topic in json.loads(kafkad.output("topics", "list", "--json"))
    (described,) = json.loads(kafkad.output("topics", "describe", topic, "--json"))
    assert described["configs"]["retention.ms"] == "1000000"
    assert [each["partition"] for each in described["partitions"]] == [0, 1, 2]
    text = kafkad.output("topics", "describe", topic).decode().splitlines()
    assert text[0].startswith(f"Topic: {topic}\tTopicId: {described['topic_id']}\tPartitionCount: 3\t")
    assert len(text) == 4
    assert kafkad.output("topics", "delete", topic) == f"Deleted topic {topic}.\n".encode()
    assert kafkad.refusal("topics", "describe", topic) == f"kafkad: topic {topic!r} does not exist"


def test_internal_topics_are_left_out_when_asked(kafkad: CommandLine, new_topic: NewTopic) -> None:
    topic = new_topic("read")
    kafkad.output("topics", "create", topic)
    kafkad.output("groups", "reset-offsets", topic, "--topic", topic, "--to-latest", "--execute")
    assert "__consumer_offsets" in kafkad.output("topics", "list").decode().split()
    without = kafkad.output("topics", "list", "--exclude-internal").decode().split()
    assert topic in without and "__consumer_offsets" not in without


def test_topic_that_is_there_or_not_is_refused_unless_that_is_fine(kafkad: CommandLine, new_topic: NewTopic) -> None:
    topic = new_topic("twice")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in kafkad.refusal("topics", "delete", topic)
    kafkad.output("topics", "delete", topic, "--if-exists")
    kafkad.output("topics", "create", topic)
    assert "TOPIC_ALREADY_EXISTS" in kafkad.refusal("topics", "create", topic)
    assert json.loads(kafkad.output("topics", "create", topic, "--if-not-exists", "--json")) == {
        "topic": topic,
        "created": False,
    }


def test_refused_creation_shows_the_reason_of_the_broker(kafkad: CommandLine, new_topic: NewTopic) -> None:
    too_many = kafkad.refusal("topics", "create", new_topic("replicas"), "--replication-factor", "3")
    assert "INVALID_REPLICATION_FACTOR" in too_many
    assert "INVALID_TOPIC_EXCEPTION" in kafkad.refusal("topics", "create", "a b")
    wrong = kafkad.refusal("topics", "create", new_topic("config"), "--config", "retention.mss=1")
    assert "retention.mss" in wrong


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_come_back_as_they_were_sent_whatever_the_compression(
    kafkad: CommandLine, new_topic: NewTopic, codec: str
) -> None:
    topic = new_topic(codec)
    lines = b"".join(b"%d %s\n" % (number, random.Random(number).randbytes(9).hex().encode()) for number in range(5000))
    kafkad.output("topics", "create", topic)
    kafkad.output("produce", topic, "--compression", codec, stdin=lines)
    assert kafkad.consumed(topic) == lines
    assert _kcat(kafkad, "-C", "-t", topic, "-e", "-q") == lines


def test_more_than_one_batch_of_short_lines_arrives_whole(kafkad: CommandLine, new_topic: NewTopic) -> None:
    topic = new_topic("short")
    lines = b"".join(b"%d\n" % number for number in range(300_000))
    said = json.loads(kafkad.output("produce", topic, "--json", stdin=lines))
    assert said == {"topic": topic, "records": 300_000, "partitions": {"0": 300_000}}
    assert kafkad.consumed(topic) == lines


def test_records_of_kcat_are_read_with_key_headers_and_place(kafkad: CommandLine, new_topic: NewTopic) -> None:
    topic = new_topic("kcat")
    _kcat(kafkad, "-P", "-t", topic, "-K:", "-H", "a=b", "-z", "gzip", stdin=b"k1:one\nk2:two\n")
    records = [json.loads(line) for line in kafkad.consumed(topic, "--json").splitlines()]
    assert [(each["key"], each["value"], each["offset"]) for each in records] == [("k1", "one", 0), ("k2", "two", 1)]
    assert records[0]["headers"] == [{"key": "a", "value": "b"}]


def test_keys_and_headers_are_read_by_kcat(kafkad: CommandLine, new_topic: NewTopic) -> None:
    topic = new_topic("headers")
    kafkad.output("produce", topic, "--key-separator", "->", "--header", "a=b", "--header", "c=", stdin=b"k->v->w\n")
    assert _kcat(kafkad, "-C", "-t", topic, "-e", "-q", "-f", "%k %s %h\n") == b"k v->w a=b,c=\n"


def test_key_goes_to_the_partition_that_other_clients_choose(kafkad: CommandLine, new_topic: NewTopic) -> None:
    ours, theirs = new_topic("ours"), new_topic("theirs")
    keyed = b"".join(b"key-%d:%d\n" % (number % 50, number) for number in range(100))
    for topic in (ours, theirs):
        kafkad.output("topics", "create", topic, "--partitions", "7")
    kafkad.output("produce", ours, "--key-separator", ":", stdin=keyed)
    _kcat(kafkad, "-P", "-t", theirs, "-K:", "-X", "topic.partitioner=murmur2_random", stdin=keyed)
    places = [kafkad.consumed(topic, "--format", "%k %s %p\\n").splitlines() for topic in (ours, theirs)]
    assert sorted(places[0]) == sorted(places[1])


def test_one_partition_is_read_from_an_offset_up_to_a_count(kafkad: CommandLine, new_topic: NewTopic) -> None:
    topic = new_topic("range")
    kafkad.output("topics", "create", topic, "--partitions", "2")
    kafkad.output("produce", topic, "--partition", "1", stdin=b"".join(b"%d\n" % n for n in range(10)))
    read = kafkad.output("consume", topic, "--partition", "1", "--offset", "3", "--max-messages", "2")
    assert read == b"3\n4\n"
    assert "OFFSET_OUT_OF_RANGE" in kafkad.refusal("consume", topic, "--partition", "1", "--offset", "11")
    assert "has no partition 2, it has 2" in kafkad.refusal("consume", topic, "--partition", "2")
    assert kafkad.output("consume", topic, "--from-beginning", "--partition", "0", "--timeout-ms", "300") == b""


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_records_arrive_whoever_confirms(kafkad: CommandLine, new_topic: NewTopic, acks: str) -> None:
    topic = new_topic(f"acks-{acks}")
    kafkad.output("topics", "create", topic)
    kafkad.output("produce", topic, "--acks", acks, stdin=b"hello\n")
    read = kafkad.output("consume", topic, "--from-beginning", "--max-messages", "1", "--timeout-ms", "10000")
    assert read == b"hello\n"


def test_ctrl_c_ends_a_waiting_consumer_quietly_with_130(kafkad: CommandLine, new_topic: NewTopic) -> None:
    topic = new_topic("waiting")
    kafkad.output("produce", topic, stdin=b"seen\n")
    with subprocess.Popen(
        kafkad.command("consume", topic, "--from-beginning"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as waiting:
        assert waiting.stdout is not None
        assert waiting.stderr is not None
        assert waiting.stdout.readline() == b"seen\n"
        waiting.send_signal(signal.SIGINT)
        try:
            assert waiting.wait(WITHIN_S) == 130
        finally:
            waiting.kill()
        assert waiting.stderr.read() == b""


def test_reader_that_goes_away_ends_the_consumer_quietly(kafkad: CommandLine, new_topic: NewTopic) -> None:
    topic = new_topic("piped")
    kafkad.output("produce", topic, stdin=b"line\n" * 100_000)
    reading, writing = os.pipe()
    with subprocess.Popen(
        kafkad.command("consume", topic, "--from-beginning"), stdout=writing, stderr=subprocess.PIPE
    ) as piped:
        os.close(writing)
        assert os.read(reading, 5) == b"line\n"
        os.close(reading)
        try:
            assert piped.wait(WITHIN_S) != 0
        finally:
            piped.kill()
        assert piped.stderr is not None
        assert piped.stderr.read() == b""


def test_new_record_reaches_a_waiting_consumer(kafkad: CommandLine, new_topic: NewTopic) -> None:
    topic = new_topic("live")
    kafkad.output("topics", "create", topic)
    with subprocess.Popen(
        kafkad.command("consume", topic, "--max-messages", "1", "--offset", "0"), stdout=subprocess.PIPE
    ) as waiting:
        kafkad.output("produce", topic, stdin=b"news\n")
        printed, _ = waiting.communicate(timeout=WITHIN_S)
    assert printed == b"news\n"


def test_line_without_the_separator_is_refused(kafkad: CommandLine, new_topic: NewTopic) -> None:
    done = kafkad.run("produce", new_topic("keyless"), "--key-separator", ":", stdin=b"no key here\n")
    assert done.returncode == 1
    assert done.stderr == b"kafkad: expected a key and ':' in each line, found b'no key here'\n"
