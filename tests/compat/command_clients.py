"""kcat and Kafka's console clients: text lines in from a file, text lines out into a file."""

import subprocess
from pathlib import Path

from bench.brokers.java import tool_command

_TIMEOUT_S = 3_000


def kcat_produce(bootstrap: str, topic: str, partition: int, lines: Path, *, compression: str) -> None:
    """Every line of the file is a record of this partition."""
    command = ["kcat", "-P", "-b", bootstrap, "-t", topic, "-p", str(partition), "-z", compression]
    command += ["-X", "acks=all", "-X", "queue.buffering.max.messages=1000000", "-l", str(lines)]
    subprocess.run(command, check=True, timeout=_TIMEOUT_S, stdin=subprocess.DEVNULL)


def kcat_consume(bootstrap: str, topic: str, partition: int, count: int, into: Path) -> None:
    """The first `count` records of the partition, a line each."""
    command = ["kcat", "-C", "-q", "-b", bootstrap, "-t", topic, "-p", str(partition)]
    command += ["-o", "beginning", "-c", str(count), "-e"]
    with open(into, "wb") as output:
        subprocess.run(command, check=True, timeout=_TIMEOUT_S, stdin=subprocess.DEVNULL, stdout=output)


def console_produce(bootstrap: str, topic: str, lines: Path, *, compression: str) -> None:
    """Every line of the file is a record; the topic has one partition, for the client chooses it."""
    args = ["--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec", compression]
    with open(lines, "rb") as source:
        done = subprocess.run(
            tool_command("kafka-console-producer", args), stdin=source, capture_output=True, timeout=_TIMEOUT_S
        )
    assert done.returncode == 0, done.stderr.decode()
    assert b"ERROR" not in done.stderr, done.stderr.decode()


def console_consume(bootstrap: str, topic: str, partition: int, count: int, into: Path) -> None:
    """The first `count` records of the partition, a line each."""
    args = ["--bootstrap-server", bootstrap, "--topic", topic, "--partition", str(partition)]
    args += ["--offset", "earliest", "--max-messages", str(count), "--timeout-ms", "60000"]
    with open(into, "wb") as output:
        done = subprocess.run(
            tool_command("kafka-console-consumer", args),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            timeout=_TIMEOUT_S,
        )
    assert done.returncode == 0, done.stderr.decode()
