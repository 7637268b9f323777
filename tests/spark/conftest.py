"""One Spark for all tests: its session takes seconds to begin."""

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from bench.brokers.jars import spark_kafka_jars

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For JVMs that end before code that is compiled well would pay: they take 40 % less CPU until then."""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Its web pages listen there.
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    local: dict[str, bool | float | int | str | None] = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": SHORT_LIVED,
        "spark.ui.port": "0",
        "spark.jars": ",".join(map(str, spark_kafka_jars())),
    }
    builder = SparkSession.builder.master("local[2]").config(map=local)
    session = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    yield session
    session.stop()
