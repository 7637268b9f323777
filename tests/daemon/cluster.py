"""Three brokers on a real ZooKeeper, and what tests ask of them.

Tests of clusters need real processes: brokers are killed, and real clients find others. One cluster is shared by all
that can share it (`SharedCluster`, the fixture `cluster`).
"""

from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from click.testing import CliRunner
from kafka import KafkaConsumer, KafkaProducer  # type: ignore[import-untyped]
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic  # type: ignore[import-untyped]
from kafka.errors import KafkaConnectionError, KafkaError  # type: ignore[import-untyped]
from kazoo.client import KazooClient

from bench.brokers.processes import WITHIN_S, eventually
from bench.brokers.zookeeper import ZookeeperServer
from kafkad.cli import main
from tests.daemon.cluster_broker import KafkadInCluster

Result = TypeVar("Result")


def first_values(consumer: KafkaConsumer, count: int) -> list[bytes]:
    """What the consumer reads until it has `count` values or more.

    The client raises an error when the broker that it asks for metadata was killed just now; then it asks another one.
    """
    found: list[bytes] = []

    def has_found() -> bool:
        with suppress(KafkaConnectionError):
            for messages in consumer.poll(timeout_ms=1000).values():
                found.extend(message.value for message in messages)
        return len(found) >= count

    eventually(has_found, what=f"{count} messages are read")
    return found


class Zookeeper(Protocol):
    """A server, or an ensemble."""

    @property
    def hosts(self) -> str: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def stop(self) -> None: ...


SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    "num.io.threads": "1",
    "num.network.threads": "1",
    "offsets.topic.num.partitions": "3",
}
"""Leaders stay where elections put them, unless a test says otherwise."""

INTERNAL = "__"


class Cluster:
    """`topic` is what tests produce to and consume from."""

    def __init__(self, folder: Path, ends: ExitStack, server: Zookeeper | None = None) -> None:
        """On `server`, in a chroot of its own; on a server of its own without one."""
        self.topic = "t"
        if server is None:
            (folder / "zookeeper").mkdir()
            server = self.zookeeper_in(folder / "zookeeper")
            ends.callback(server.stop)
        self.server = server
        hosts = f"{self.server.hosts}/of{folder}/a-chroot"
        self.brokers: dict[int, KafkadInCluster] = {}
        for each in (1, 2, 3):
            settings = {"zookeeper.connect": hosts, "node.id": str(each), **self.settings_of(folder / str(each))}
            self.brokers[each] = ends.enter_context(self.broker_in(folder / str(each), settings))
        self.zookeeper = KazooClient(hosts)
        self.zookeeper.start()
        ends.callback(self.zookeeper.close)
        ends.callback(self.zookeeper.stop)
        self.wait_until(lambda: self.known(3) == {1, 2, 3}, "broker 3 knows all three")

    def zookeeper_in(self, folder: Path) -> Zookeeper:
        return ZookeeperServer(folder)

    def broker_in(self, folder: Path, settings: dict[str, str]) -> KafkadInCluster:
        return KafkadInCluster(folder, settings)

    def settings_of(self, _folder: Path) -> dict[str, str]:
        """Of the broker that has this folder."""
        return self.settings()

    def settings(self) -> dict[str, str]:
        return {**SETTINGS, "offsets.topic.replication.factor": "3", "min.insync.replicas": "2"}

    def wait_until(self, is_true: Callable[[], bool], what: str) -> None:
        def is_true_now() -> bool:
            try:
                return is_true()
            except KafkaError:
                return False

        eventually(is_true_now, what=what)

    def admin(self, broker: int) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self.brokers[broker].bootstrap)

    def response(self, broker: int, request: Callable[[KafkaAdminClient], Result]) -> Result:
        """The client may connect to any broker in the Metadata, also to a killed one until its session ends: then it
        starts again.
        """
        responses: list[Result] = []

        def responds() -> bool:
            client = self.admin(broker)
            try:
                responses.append(request(client))
            except KafkaConnectionError:
                return False
            finally:
                client.close()
            return True

        eventually(responds, what=f"a client of broker {broker} gets a response")
        return responses[0]

    def known(self, broker: int) -> set[int]:
        described = self.response(broker, KafkaAdminClient.describe_cluster)
        return {each["broker_id"] for each in described["brokers"]}

    def controller(self, broker: int) -> int:
        return int(self.response(broker, KafkaAdminClient.describe_cluster)["controller_id"])

    def kill_for_good(self, broker: int) -> None:
        """Nobody waits for its session, also not a controller that it has never answered."""
        self.brokers[broker].kill()
        command = self.brokers[broker].command()
        done = CliRunner().invoke(main, ["brokers", "end-session", *command[command.index("start") + 1 :]])
        assert done.exit_code == 0, done.output

    def from_controller(self) -> tuple[int, int, int]:
        """The brokers: the controller, on which all of them agree, and the other two."""
        self.wait_until(lambda: len({self.controller(each) for each in (1, 2, 3)}) == 1, "all know the controller")
        first = self.controller(1)
        second, third = {1, 2, 3} - {first}
        return first, second, third

    def rows(self, broker: int, name: str) -> list[dict[str, Any]]:
        (topic,) = self.response(broker, lambda client: client.describe_topics([name]))
        return sorted(topic["partitions"], key=lambda row: int(row["partition_index"]))

    def leaders(self, broker: int, name: str) -> list[int]:
        return [int(row["leader_id"]) for row in self.rows(broker, name)]

    def in_sync(self, broker: int, name: str) -> list[set[int]]:
        return [set(row["isr_nodes"]) for row in self.rows(broker, name)]

    def offline(self, broker: int, name: str) -> list[set[int]]:
        """The replicas that this broker names as offline."""
        return [set(row["offline_replicas"]) for row in self.rows(broker, name)]

    def directories(self, broker: int, name: str) -> set[str]:
        """Those of the topic's partitions, in whatever log directory of the broker."""
        return {path.name for path in self.brokers[broker].folder.glob(f"*/{name}-[0-9]")}

    def produce(self, broker: int, numbers: range) -> None:
        """Each is acknowledged by all that are in sync."""
        producer = KafkaProducer(bootstrap_servers=self.brokers[broker].bootstrap, acks="all", enable_idempotence=True)
        sent = [producer.send(self.topic, b"%d" % number, partition=number % 3) for number in numbers]
        producer.flush(WITHIN_S)
        assert all(each.succeeded() for each in sent)
        producer.close()

    def consume(self, broker: int, group: str, count: int) -> list[int]:
        """What a new member of the group reads, in order; it stops when it has `count`."""
        consumer = KafkaConsumer(
            self.topic,
            bootstrap_servers=self.brokers[broker].bootstrap,
            group_id=f"{group}-of-{self.topic}",
            auto_offset_reset="earliest",
        )
        found = sorted(map(int, first_values(consumer, count)))
        consumer.close()
        return found

    def elect_preferred_leaders(self, broker: int) -> None:
        self.response(broker, lambda client: client.elect_leaders(0, {self.topic: [0, 1, 2]}))

    def create(self, broker: int, name: str, assignments: dict[int, list[int]]) -> None:
        topic = NewTopic(name, num_partitions=-1, replication_factor=-1, replica_assignments=assignments)
        self.response(broker, lambda client: client.create_topics([topic]))

    def configure(self, broker: int, topic: str, name: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs={name: value})
        self.response(broker, lambda client: client.alter_configs([resource]))

    def create_led(self, broker: int, name: str, assignments: dict[int, list[int]]) -> None:
        """Create it; every broker knows its leaders, which are the preferred ones."""
        self.create(broker, name, assignments)
        leaders = [replicas[0] for replicas in assignments.values()]
        for each in self.brokers:
            self.wait_until(
                lambda each=each: self.leaders(each, name) == leaders,  # type: ignore[misc]
                f"broker {each} knows the leaders of {name}",
            )

    def end_test(self) -> None:
        """All brokers run, all replicas are in sync, and the topics are gone."""
        for broker in self.brokers.values():
            if not broker.tree():
                broker.start()
        for each in self.brokers:
            self.wait_until(lambda each=each: self.known(each) == {1, 2, 3}, f"broker {each} knows all")  # type: ignore[misc]
        names = set(self.zookeeper.get_children("/brokers/topics"))
        made = {name for name in names if not name.startswith(INTERNAL)}
        if made:
            self.response(1, lambda client: client.delete_topics(sorted(made)))
        self.wait_until(lambda: made.isdisjoint(self.zookeeper.get_children("/brokers/topics")), "topics are deleted")
        for name in names - made:
            self.wait_until(
                lambda name=name: all(each == {1, 2, 3} for each in self.in_sync(1, name)),  # type: ignore[misc]
                f"all replicas of {name} are in sync",
            )


class Transactional(Cluster):
    """All internal topics have three partitions and three replicas."""

    def settings(self) -> dict[str, str]:
        return {
            **super().settings(),
            "transaction.state.log.num.partitions": "3",
            "transaction.state.log.replication.factor": "3",
            "transaction.state.log.min.isr": "2",
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())


def rotated(first: int, second: int, third: int) -> dict[int, list[int]]:
    """Replicas of three partitions, of which each broker leads one."""
    return {0: [first, second, third], 1: [second, third, first], 2: [third, first, second]}


def kafkad(cluster: Cluster, *args: str) -> list[str]:
    """The lines that the command prints."""
    done = CliRunner().invoke(main, [*args, "--bootstrap-server", cluster.brokers[2].bootstrap])
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()
