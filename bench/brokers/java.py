"""Run classes of Apache Kafka.

One JVM for each call, with the heap size of Kafka's own scripts. Tools use the C1 compiler and a shared class archive
next to the jars, because most of their time is the start-up.
"""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.brokers.jars import kafka_libs

_LOG_CONFIG = Path(__file__).parent / "log4j2.properties"
BROKER_FLAGS = (
    "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true",
)  # fmt: skip
_TOOL_FLAGS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Xlog:disable",  # the JVM writes warnings to stdout, into the output of a tool
    "-Xlog:all=warning:stderr",
    "-Djava.awt.headless=true",
)
_PERFORMANCE_FLAGS = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Djava.awt.headless=true")

CLASSES = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
}
_HEAPS = {  # as the scripts of the same names set them
    "kafka-console-producer": "512M",
    "kafka-console-consumer": "512M",
    "kafka-producer-perf-test": "512M",
    "kafka-consumer-perf-test": "512M",
}
_TUNED = frozenset({"kafka-producer-perf-test", "kafka-consumer-perf-test"})


def broker_command(properties: Path) -> list[str]:
    """The command line of an Apache Kafka broker, as kafka-server-start.sh composes it."""
    return ["java", *BROKER_FLAGS, *class_path(), "kafka.Kafka", str(properties)]


def tool_command(name: str, args: Sequence[str]) -> list[str]:
    """The command line of one of Kafka's tools, by the name of its script."""
    heap = f"-Xmx{_HEAPS.get(name, '256M')}"
    flags = _PERFORMANCE_FLAGS if name in _TUNED else (*_TOOL_FLAGS, f"-XX:SharedArchiveFile={_archive()}")
    return ["java", heap, *flags, *class_path(), CLASSES[name], *args]


def kafka_tool(
    name: str, *args: str, input: bytes | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[bytes]:
    """Run one of Kafka's tools; the caller checks exit code and output."""
    command = tool_command(name, args)
    if input is None:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout)
    return subprocess.run(command, input=input, capture_output=True, timeout=timeout)


def class_path() -> list[str]:
    """The class path of all of Kafka's jars, and a log configuration without output to stdout."""
    libs = sorted(str(jar) for jar in kafka_libs().glob("*.jar"))
    return [f"-Dlog4j2.configurationFile={_LOG_CONFIG}", "-cp", ":".join(libs)]


def _archive() -> Path:
    """A class-data archive for the admin tools, which halves their start-up time (JDK 13 and newer)."""
    archive = kafka_libs().parent / "tools.jsa"
    if not archive.exists():
        partial = archive.with_suffix(f".{os.getpid()}.partial")
        impatient = archive.with_name("impatient.properties")
        impatient.write_text("default.api.timeout.ms=1000\nrequest.timeout.ms=500\n")
        # Nothing listens on port 1: the tool loads the admin client, times out, and writes the archive.
        command = ["java", "-Xmx256M", *_TOOL_FLAGS, f"-XX:ArchiveClassesAtExit={partial}", *class_path()]
        command += [CLASSES["kafka-topics"], "--bootstrap-server", "127.0.0.1:1", "--list"]
        command += ["--command-config", str(impatient)]
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
        partial.rename(archive)
    return archive
