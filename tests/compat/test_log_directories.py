"""One log directory, two brokers in turn: what Apache Kafka wrote opens here, and what kafkad added opens there."""

from pathlib import Path

from bench.brokers.apache import ApacheKafka
from bench.brokers.broker import RunningBroker
from bench.brokers.daemon import Kafkad
from tests.compat.command_clients import kcat_consume, kcat_produce


def _write(broker: RunningBroker, tmp_path: Path, first: int, last: int) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"line {number}\n" for number in range(first, last)))
    kcat_produce(broker.bootstrap, "moved", 0, lines, compression="lz4")


def _read(broker: RunningBroker, tmp_path: Path, count: int) -> list[str]:
    into = tmp_path / "read.txt"
    kcat_consume(broker.bootstrap, "moved", 0, count, into)
    return into.read_text().splitlines()


def test_log_directory_goes_from_apache_kafka_to_kafkad_and_back(tmp_path: Path) -> None:
    everything = [f"line {number}" for number in range(3000)]
    apache = ApacheKafka(tmp_path / "apache")
    with apache:
        _write(apache, tmp_path, 0, 2000)
    with Kafkad(tmp_path / "kafkad", {"log.dirs": str(apache.log_dir)}) as kafkad:
        assert _read(kafkad, tmp_path, 2000) == everything[:2000]
        _write(kafkad, tmp_path, 2000, 3000)
        assert _read(kafkad, tmp_path, 3000) == everything
        assert kafkad.stop() == 0
    with apache.started_again():
        assert _read(apache, tmp_path, 3000) == everything
