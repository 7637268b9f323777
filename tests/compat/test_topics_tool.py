"""kafka-topics prints on kafkad what it prints on Apache Kafka, errors included."""

from collections.abc import Callable

import pytest

from tests.compat.side_by_side import Tools

NewTopic = Callable[[str], str]
TOPICS = "kafka-topics"
INTERNAL = "__consumer_offsets"


def test_a_topic_is_created_and_described(tools: Tools, new_topic: NewTopic) -> None:
    topic = new_topic("described")
    tools.create(topic, "--partitions", "3", "--config", "retention.ms=1000000")
    described = tools.agree(TOPICS, "--describe", "--topic", topic)
    assert "PartitionCount: 3" in described
    assert "retention.ms=1000000" in described


def test_topics_are_listed(tools: Tools, new_topic: NewTopic) -> None:
    names = {tools.create(new_topic("listed")), tools.create(new_topic("listed"))}
    ours, theirs = tools.both(TOPICS, "--list")
    assert names <= set(ours.out.split())
    assert names <= set(theirs.out.split())
    assert ours.out.split() == sorted(ours.out.split())


def test_internal_topics_are_listed_and_hidden_when_asked(tools: Tools, new_topic: NewTopic) -> None:
    topic = tools.create(new_topic("read"))
    reset = ("--group", topic, "--topic", topic, "--reset-offsets", "--to-latest", "--execute")
    tools.both("kafka-consumer-groups", *reset)
    for broker in tools.brokers:
        assert INTERNAL in tools.on(broker, TOPICS, "--list").out.split()
        without = tools.on(broker, TOPICS, "--list", "--exclude-internal").out.split()
        assert topic in without and INTERNAL not in without
        described = tools.on(broker, TOPICS, "--describe", "--exclude-internal").out
        assert f"Topic: {topic}\t" in described and INTERNAL not in described


def test_partitions_are_added_but_not_removed(tools: Tools, new_topic: NewTopic) -> None:
    topic = tools.create(new_topic("grown"), "--partitions", "2")
    tools.agree(TOPICS, "--alter", "--topic", topic, "--partitions", "5")
    tools.agree(TOPICS, "--alter", "--topic", topic, "--partitions", "5", code=1)
    tools.agree(TOPICS, "--alter", "--topic", topic, "--partitions", "1", code=1)
    assert "PartitionCount: 5" in tools.agree(TOPICS, "--describe", "--topic", topic)


def test_a_deleted_topic_is_gone(tools: Tools, new_topic: NewTopic) -> None:
    topic = tools.create(new_topic("deleted"))
    tools.agree(TOPICS, "--delete", "--topic", topic)
    assert "does not exist" in tools.agree(TOPICS, "--describe", "--topic", topic, code=1)


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(["--topic", "a b"], id="illegal name"),
        pytest.param(["--topic", ".."], id="a folder's name"),
        pytest.param(["--topic", "x" * 250], id="too long a name"),
        pytest.param(["--topic", "never", "--replication-factor", "3"], id="three replicas on one broker"),
        pytest.param(["--topic", "never", "--partitions", "0"], id="no partitions"),
        pytest.param(["--topic", "never", "--config", "retention.mss=5"], id="unknown setting"),
        pytest.param(["--topic", "never", "--config", "cleanup.policy=shrink"], id="illegal value"),
        pytest.param(["--topic", "never", "--replica-assignment", "7"], id="unknown broker"),
        pytest.param(["--topic", "never", "--replica-assignment", "1:1"], id="a broker twice"),
    ],
)
def test_a_wrong_creation_explains_itself_as_on_apache_kafka(tools: Tools, args: list[str]) -> None:
    tools.agree(TOPICS, "--create", *args, code=1)


def test_an_existing_topic_is_refused(tools: Tools, new_topic: NewTopic) -> None:
    topic = tools.create(new_topic("existing"))
    assert "already exists" in tools.agree(TOPICS, "--create", "--topic", topic, code=1)
    tools.agree(TOPICS, "--create", "--topic", topic, "--if-not-exists")


def test_a_name_that_collides_in_metrics_is_refused(tools: Tools, new_topic: NewTopic) -> None:
    topic = new_topic("collides")
    tools.create(f"{topic}.x")
    assert "collides" in tools.agree(TOPICS, "--create", "--topic", f"{topic}_x", code=1)


@pytest.mark.parametrize("args", [["--describe"], ["--delete"], ["--alter", "--partitions", "3"]], ids=" ".join)
def test_an_unknown_topic_is_named(tools: Tools, args: list[str]) -> None:
    tools.agree(TOPICS, *args, "--topic", "not-there", code=1)


def test_an_assignment_by_hand_is_kept(tools: Tools, new_topic: NewTopic) -> None:
    topic = tools.create(new_topic("assigned"), "--replica-assignment", "1,1")
    assert "PartitionCount: 2" in tools.agree(TOPICS, "--describe", "--topic", topic)
