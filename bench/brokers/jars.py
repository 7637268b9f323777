"""The jars of stock Apache Kafka.

Maven downloads them once into `build/kafka/<version>/libs` of the checkout; KAFKAD_KAFKA_LIBS sets another folder.
Without Maven or Java this fails: tests against Apache Kafka are never skipped.
"""

import fcntl
import os
import subprocess
from pathlib import Path

KAFKA_VERSION = "4.3.0"
ON_ZOOKEEPER_VERSION = "3.9.1"
KAFKA_2_8_VERSION = "2.8.2"
SPARK_KAFKA_VERSION = "4.2.0"
_SPARK_KAFKA_PARTS = (
    *("spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13"),
    *("kafka-clients", "commons-pool2"),
)
"""pyspark has the other jars."""
_HERE = Path(__file__).parent
_CHECKOUT = _HERE.parents[1]
_RESOLVE_TIMEOUT_S = 600


def kafka_libs() -> Path:
    """The folder with all jars of Apache Kafka, downloaded by the first call on a machine."""
    return _libs("KAFKAD_KAFKA_LIBS", KAFKA_VERSION, "pom.xml")


def kafka_on_zookeeper_libs() -> Path:
    """The jars of the last Apache Kafka with ZooKeeper; KAFKAD_KAFKA_ON_ZOOKEEPER_LIBS sets another folder."""
    return _libs("KAFKAD_KAFKA_ON_ZOOKEEPER_LIBS", ON_ZOOKEEPER_VERSION, "pom-zookeeper.xml")


def kafka_2_8_libs() -> Path:
    """The jars of the oldest Apache Kafka in a cluster with kafkad; KAFKAD_KAFKA_2_8_LIBS sets another folder."""
    return _libs("KAFKAD_KAFKA_2_8_LIBS", KAFKA_2_8_VERSION, "pom-zookeeper.xml")


def spark_kafka_jars() -> list[Path]:
    """The jars of Spark's own Kafka source; KAFKAD_SPARK_KAFKA_LIBS sets another folder."""
    libs = _libs("KAFKAD_SPARK_KAFKA_LIBS", SPARK_KAFKA_VERSION, "pom-spark.xml", "spark", "spark.version")
    return sorted(libs.glob("*.jar"))


def _libs(variable: str, version: str, pom: str, kind: str = "kafka", property_name: str = "kafka.version") -> Path:
    named = os.environ.get(variable)
    if named:
        return Path(named)
    libs = _CHECKOUT / "build" / kind / version / "libs"
    libs.parent.mkdir(parents=True, exist_ok=True)
    # Several test processes may start at once; one downloads, and the others wait.
    with open(libs.parent / "resolve.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not libs.exists():
            _resolve_into(libs, f"-D{property_name}={version}", pom)
    return libs


def _resolve_into(libs: Path, definition: str, pom: str) -> None:
    partial = libs.with_name("libs.partial")
    command = ["mvn", "-q", "-B", "-f", str(_HERE / pom), definition]
    command += ["dependency:copy-dependencies", f"-DoutputDirectory={partial}"]
    if pom == "pom-spark.xml":
        command.append(f"-DincludeArtifactIds={','.join(_SPARK_KAFKA_PARTS)}")
    subprocess.run(command, check=True, timeout=_RESOLVE_TIMEOUT_S, stdin=subprocess.DEVNULL)
    partial.rename(libs)
