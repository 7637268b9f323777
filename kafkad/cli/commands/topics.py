"""`kafkad topics`: create, list, describe and delete topics, with the output of kafka-topics.sh."""

import base64
import json
from uuid import UUID

import click

from kafkad.cli.broker_options import broker_options, connected_client
from kafkad.cli.options import INT16_MAX, INT32_MAX, json_option
from kafkad.client.broker_client import BROKER_DEFAULT, PartitionDescription, TopicDescription
from kafkad.client.configs import topic_configs
from kafkad.client.connection import BrokerCallFailed
from kafkad.core.errors import ErrorCode


@click.group(epilog="\b\nExample:\n  kafkad topics create orders --partitions 12\n  kafkad topics describe orders")
def topics() -> None:
    """Create, list, describe and delete topics."""


@topics.command(epilog="\b\nExample:\n  kafkad topics create orders --partitions 12 --config retention.ms=86400000")
@click.argument("name")
@click.option("--partitions", type=click.IntRange(1, INT32_MAX), help="Default: the broker's num.partitions.")
@click.option("--replication-factor", type=click.IntRange(1, INT16_MAX), help="Default: the broker's.")
@click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="A topic config; repeatable.")
@click.option("--if-not-exists", is_flag=True, help="Succeed if the topic exists.")
@json_option
@broker_options
def create(
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    as_json: bool,
    bootstrap: str,
    timeout_s: float,
) -> None:
    """Create the topic NAME."""
    configs_by_name = dict(_key_and_value(config) for config in configs)
    created = True
    with connected_client(bootstrap, timeout_s) as client:
        try:
            client.create_topic(
                name,
                partitions=partitions or BROKER_DEFAULT,
                replication_factor=replication_factor or BROKER_DEFAULT,
                configs=configs_by_name,
            )
        except BrokerCallFailed as failed:
            if not (if_not_exists and failed.code is ErrorCode.TOPIC_ALREADY_EXISTS):
                raise
            created = False
    outcome = "Created topic" if created else "Existing topic"
    click.echo(json.dumps({"topic": name, "created": created}) if as_json else f"{outcome} {name}.")


@topics.command("list", epilog="\b\nExample:\n  kafkad topics list --bootstrap-server 127.0.0.1:9092")
@click.option("--exclude-internal", is_flag=True, help="Omit internal topics.")
@json_option
@broker_options
def list_topics(exclude_internal: bool, as_json: bool, bootstrap: str, timeout_s: float) -> None:
    """Print the names of all topics."""
    with connected_client(bootstrap, timeout_s) as client:
        found = client.topics()
    names = [topic.name for topic in found if not (exclude_internal and topic.is_internal)]
    if as_json:
        click.echo(json.dumps(names))
    else:
        click.echo("".join(f"{name}\n" for name in names), nl=False)


@topics.command(epilog="\b\nExample:\n  kafkad topics describe orders --json")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@json_option
@broker_options
def describe(names: tuple[str, ...], as_json: bool, bootstrap: str, timeout_s: float) -> None:
    """Show partitions, leaders, replicas and configs of the topics NAME, or of all topics."""
    with connected_client(bootstrap, timeout_s) as client:
        found = client.topics(names or None)
        configs = topic_configs(client, [topic.name for topic in found])
    if as_json:
        click.echo(json.dumps([_as_json(topic, configs[topic.name]) for topic in found]))
        return
    for topic in found:
        click.echo("\n".join(describe_lines(topic, configs[topic.name])))


@topics.command(epilog="\b\nExample:\n  kafkad topics delete orders")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--if-exists", is_flag=True, help="Succeed if the topic does not exist.")
@json_option
@broker_options
def delete(names: tuple[str, ...], if_exists: bool, as_json: bool, bootstrap: str, timeout_s: float) -> None:
    """Delete the topics NAME and all their records."""
    with connected_client(bootstrap, timeout_s) as client:
        for name in names:
            deleted = True
            try:
                client.delete_topic(name)
            except BrokerCallFailed as failed:
                if not (if_exists and failed.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                    raise
                deleted = False
            outcome = "Deleted topic" if deleted else "Non-existing topic"
            click.echo(json.dumps({"topic": name, "deleted": deleted}) if as_json else f"{outcome} {name}.")


def _key_and_value(pair: str) -> tuple[str, str]:
    key, equals, value = pair.partition("=")
    if not equals or not key:
        raise click.BadParameter(f"expected KEY=VALUE, found {pair!r}", param_hint="--config")
    return key.strip(), value.strip()


def kafka_uuid(topic_id: UUID | None) -> str:
    """Kafka writes ids in unpadded URL-safe base64."""
    return base64.urlsafe_b64encode(topic_id.bytes if topic_id else bytes(16)).decode().rstrip("=")


def _replication_factor(topic: TopicDescription) -> int:
    return len(topic.partitions[0].replicas) if topic.partitions else 0


def describe_lines(topic: TopicDescription, configs: dict[str, str]) -> list[str]:
    shown = ",".join(f"{key}={value}" for key, value in sorted(configs.items()))
    head = (
        f"Topic: {topic.name}\tTopicId: {kafka_uuid(topic.topic_id)}"
        f"\tPartitionCount: {len(topic.partitions)}\tReplicationFactor: {_replication_factor(topic)}"
        f"\tConfigs: {shown}"
    )
    return [head, *(_partition_line(topic.name, partition) for partition in topic.partitions)]


def _partition_line(name: str, partition: PartitionDescription) -> str:
    leader = "none" if partition.leader < 0 else str(partition.leader)
    replicas, isr = (",".join(map(str, ids)) for ids in (partition.replicas, partition.isr))
    # Eligible leader replicas (KIP-966) are not in Metadata: Kafka's tool prints N/A for such brokers.
    return (
        f"\tTopic: {name}\tPartition: {partition.partition}\tLeader: {leader}"
        f"\tReplicas: {replicas}\tIsr: {isr}\tElr: N/A\tLastKnownElr: N/A"
    )


def _as_json(topic: TopicDescription, configs: dict[str, str]) -> dict[str, object]:
    return {
        "topic": topic.name,
        "topic_id": kafka_uuid(topic.topic_id),
        "internal": topic.is_internal,
        "replication_factor": _replication_factor(topic),
        "configs": configs,
        "partitions": [
            {
                "partition": partition.partition,
                "leader": partition.leader,
                "replicas": partition.replicas,
                "isr": partition.isr,
                "offline_replicas": partition.offline_replicas,
            }
            for partition in topic.partitions
        ],
    }
