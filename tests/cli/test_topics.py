from uuid import UUID

from click.testing import CliRunner

from kafkad.cli import main
from kafkad.cli.commands.topics import describe_lines, kafka_uuid
from kafkad.client.broker_client import PartitionDescription, TopicDescription


def test_description_has_the_layout_of_kafka_topics() -> None:
    partitions = [
        PartitionDescription(partition=0, leader=1, replicas=(1, 2), isr=(1,), offline_replicas=(2,)),
        PartitionDescription(partition=1, leader=-1, replicas=(2, 1), isr=(2,), offline_replicas=()),
    ]
    topic = TopicDescription(name="orders", topic_id=UUID(int=1), is_internal=False, partitions=tuple(partitions))
    assert describe_lines(topic, {"retention.ms": "1000", "cleanup.policy": "compact"}) == [
        "Topic: orders\tTopicId: AAAAAAAAAAAAAAAAAAAAAQ\tPartitionCount: 2\tReplicationFactor: 2"
        "\tConfigs: cleanup.policy=compact,retention.ms=1000",
        "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\tElr: N/A\tLastKnownElr: N/A",
        "\tTopic: orders\tPartition: 1\tLeader: none\tReplicas: 2,1\tIsr: 2\tElr: N/A\tLastKnownElr: N/A",
    ]


def test_topic_id_is_written_as_kafka_writes_it() -> None:
    assert kafka_uuid(UUID("6d7b32c1-1b69-466b-98e3-20398c76a460")) == "bXsywRtpRmuY4yA5jHakYA"


def test_config_without_equals_sign_is_wrong_usage() -> None:
    outcome = CliRunner().invoke(main, ["topics", "create", "demo", "--config", "retention.ms"])
    assert outcome.exit_code == 2
    assert "expected KEY=VALUE" in outcome.stderr
