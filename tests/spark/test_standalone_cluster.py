"""An export on a standalone Spark: a master and two workers, whose Python is the one file that docs/export.md makes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from bench.brokers.daemon import Kafkad
from bench.brokers.ports import free_port
from bench.brokers.processes import eventually
from kafkad.client.broker_client import BROKER_DEFAULT, BrokerClient
from tests.spark.conftest import SHORT_LIVED

CHECKOUT = Path(__file__).parents[2]
SPARK = Path(pyspark.__file__).parent
COUNT = 30_000
WITHIN_S = 300.0


@pytest.fixture(scope="module")
def pex(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of `kafkad[delta]` and pandas; Spark's own modules are on the workers, which know their version."""
    folder = tmp_path_factory.mktemp("pex")
    wheels, built = folder / "wheels", folder / "kafkad.pex"
    run([sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(wheels), f"{CHECKOUT}[delta]", "pandas<3"])
    made_of = ["--no-index", "--find-links", str(wheels), "kafkad[delta]", "pandas"]
    run([sys.executable, "-m", "pex", *made_of, "--inherit-path=fallback", "--no-compress", "-o", str(built)])
    return built


def run(command: list[str], **environment: str) -> str:
    everything = {**os.environ, "KAFKAD_PURE": "1", **environment}
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, env=everything)
    assert done.returncode == 0, f"{done.stdout[-2_000:]}\n{done.stderr[-6_000:]}"
    return done.stdout


@contextmanager
def daemon(folder: Path, *arguments: str) -> Iterator[Path]:
    """A process of Spark, and what it prints."""
    folder.mkdir()
    printed = folder / "printed"
    environment = {**os.environ, "SPARK_HOME": str(SPARK), "SPARK_NO_DAEMONIZE": "1", "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["SPARK_DAEMON_JAVA_OPTS"] = SHORT_LIVED
    with printed.open("wb") as output:
        process = subprocess.Popen(
            [str(SPARK / "bin" / "spark-class"), *arguments], stdout=output, stderr=output, env=environment, cwd=folder
        )
    try:
        yield printed
    finally:
        process.terminate()
        process.wait(WITHIN_S)


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address; two workers of one core each have registered."""
    folder, port = tmp_path_factory.mktemp("standalone"), free_port()
    address = f"spark://127.0.0.1:{port}"
    addresses = ("--host", "127.0.0.1", "--webui-port", "0")
    with ExitStack() as ends:
        printed = ends.enter_context(
            daemon(folder / "master", "org.apache.spark.deploy.master.Master", *addresses, "--port", str(port))
        )
        eventually(lambda: "I have been elected leader" in printed.read_text(), within=WITHIN_S, what="a master")
        for name in ("one", "two"):
            limits = ("--cores", "1", "--memory", "1G", "--work-dir", str(folder / f"work-{name}"))
            worker = ("org.apache.spark.deploy.worker.Worker", *addresses, *limits, address)
            ends.enter_context(daemon(folder / name, *worker))
        eventually(
            lambda: printed.read_text().count("Registering worker") == 2, within=WITHIN_S, what="two workers register"
        )
        yield address


def test_workers_export_with_the_python_of_one_file(pex: Path, master: str, tmp_path: Path) -> None:
    out = tmp_path / "table"
    with Kafkad(tmp_path / "broker", {}) as broker:
        with BrokerClient(broker.bootstrap) as client:
            client.create_topic("orders", partitions=4, replication_factor=BROKER_DEFAULT, configs={})
        producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "lz4"})
        for number in range(COUNT):
            producer.produce("orders", b"%d" % number, partition=number % 4)
            producer.poll(0)
        assert producer.flush(WITHIN_S) == 0
        command = [
            *(str(SPARK / "bin" / "spark-submit"), "--master", master, "--files", str(pex)),
            *("--conf", "spark.pyspark.python=./kafkad.pex", "--conf", f"spark.pyspark.driver.python={sys.executable}"),
            *("--conf", "spark.driver.bindAddress=127.0.0.1", "--conf", "spark.driver.host=127.0.0.1"),
            *("--conf", f"spark.executorEnv.PEX_ROOT={tmp_path / 'unpacked'}", "--conf", "spark.ui.enabled=false"),
            *("--driver-java-options", SHORT_LIVED, "--conf", f"spark.executor.extraJavaOptions={SHORT_LIVED}"),
            *("--executor-memory", "512M", str(CHECKOUT / "spark" / "export.py"), "--topic", "orders"),
            *("--bootstrap-server", broker.bootstrap, "--source", "broker", "--format", "delta"),
            *("--out", str(out), "--json"),
        ]
        said = run(command, SPARK_HOME=str(SPARK), SPARK_LOCAL_IP="127.0.0.1")
        (summary,) = [line for line in said.splitlines() if line.startswith("{")]
        assert json.loads(summary)["records"] == COUNT
        requested = command[command.index("--topic") :]
        assert json.loads(run([sys.executable, "-m", "kafkad", "export", "run", *requested]))["commit"] is None
    values = DeltaTable(str(out)).to_pyarrow_table(columns=["value"]).column("value").to_pylist()
    assert sorted(map(int, values)) == list(range(COUNT))
    assert any((tmp_path / "unpacked").iterdir()), "the workers ran the file's Python"
