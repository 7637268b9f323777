"""The last Apache Kafka with metadata in ZooKeeper, for migrations of its directories in both directions."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from bench.brokers.broker import RunningBroker
from bench.brokers.jars import kafka_2_8_libs, kafka_on_zookeeper_libs
from bench.brokers.readiness import has_controller

_LOG_CONFIG = (
    "log4j.rootLogger=WARN, C\n"
    "log4j.appender.C=org.apache.log4j.ConsoleAppender\n"
    "log4j.appender.C.layout=org.apache.log4j.PatternLayout\n"
    "log4j.appender.C.layout.ConversionPattern=[%d] %p %m (%c)%n\n"
)


class ApacheKafkaOnZookeeper(RunningBroker):
    """One broker; `hosts` is the address of a ZooKeeper, with an optional chroot."""

    name = "Apache Kafka on ZooKeeper"
    clean_exits = frozenset({0, 143})
    flags: ClassVar[tuple[str, ...]] = ("-Xmx512M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    """For a fast start; a benchmark uses the flags of Kafka's scripts."""
    libs: Callable[[], Path] = staticmethod(kafka_on_zookeeper_libs)
    """The folder with its jars."""

    def __init__(self, folder: Path, hosts: str, overrides: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, overrides)
        self._hosts = hosts

    def command(self) -> list[str]:
        libs = ":".join(sorted(str(jar) for jar in self.libs().glob("*.jar")))
        log_config = f"-Dlog4j.configuration=file:{self.folder / 'log4j.properties'}"
        java = ["java", *self.flags, "-Djava.awt.headless=true", log_config, "-cp", libs]
        return [*java, "kafka.Kafka", str(self.folder / "server.properties")]

    def _ready_or_dead(self) -> bool:
        """The broker responds before its first UpdateMetadata; clients that send requests then wait for minutes."""
        return super()._ready_or_dead() and has_controller(self.port)

    def prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "log4j.properties").write_text(_LOG_CONFIG)
        settings = {
            "broker.id": "1",
            "zookeeper.connect": self._hosts,
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": str(self.log_dir),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
        } | self.overrides
        properties = "".join(f"{key}={value}\n" for key, value in settings.items())
        (self.folder / "server.properties").write_text(properties)


class ApacheKafka28(ApacheKafkaOnZookeeper):
    """The oldest version that can be in a cluster with kafkad."""

    name = "Apache Kafka 2.8"
    libs: Callable[[], Path] = staticmethod(kafka_2_8_libs)
