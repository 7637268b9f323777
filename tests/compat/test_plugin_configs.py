"""Kafka's own tools and the topic configs of a plugin: kafka-configs sets, checks, shows and deletes them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.brokers.daemon import Kafkad
from tests.tools.tool_server import ToolResult, ToolServer

KEEP = "kafkad.plugin.keep.newest.segments"
EXAMPLES = Path(__file__).parents[2] / "examples"


class Configs:
    """kafka-configs and kafka-topics on one topic of a broker with the example in its plugins folder."""

    def __init__(self, server: ToolServer, broker: Kafkad) -> None:
        self._server = server
        self._broker = broker

    def run(self, name: str, *args: str) -> ToolResult:
        return self._server.run(name, "--bootstrap-server", self._broker.bootstrap, *args)

    def on_topic(self, *args: str) -> ToolResult:
        return self.run("kafka-configs", *args, "--entity-type", "topics", "--entity-name", "kept")


@pytest.fixture
def configs(tmp_path: Path) -> Iterator[Configs]:
    settings = {"kafkad.plugins.dir": str(EXAMPLES / "keep_newest_segments")}
    with Kafkad(tmp_path, settings) as broker, ToolServer() as server:
        configs = Configs(server, broker)
        assert configs.run("kafka-topics", "--create", "--topic", "kept").returncode == 0
        yield configs


def test_a_config_of_a_plugin_is_like_kafkas_own(configs: Configs) -> None:
    assert f"{KEEP}=3 sensitive=false" in configs.on_topic("--describe", "--all").stdout.decode()
    assert configs.on_topic("--alter", "--add-config", f"{KEEP}=5,cleanup.policy=keep-newest").returncode == 0
    described = configs.on_topic("--describe").stdout.decode()
    assert f"{KEEP}=5 sensitive=false synonyms={{DYNAMIC_TOPIC_CONFIG:{KEEP}=5}}" in described
    refused = configs.on_topic("--alter", "--add-config", f"{KEEP}=0")
    assert refused.returncode == 1
    said = (refused.stdout + refused.stderr).decode()
    assert f"Invalid value 0 for configuration {KEEP}: Value must be at least 1" in said
    assert configs.on_topic("--alter", "--delete-config", KEEP).returncode == 0
    assert KEEP not in configs.on_topic("--describe").stdout.decode()


def test_kafka_topics_refuses_what_kafka_does_not_know_before_it_asks(configs: Configs) -> None:
    """As the docs say: it checks names by itself."""
    refused = configs.run("kafka-topics", "--create", "--topic", "other", "--config", f"{KEEP}=5")
    assert refused.returncode == 1
    assert f"Unknown topic config name: {KEEP}" in (refused.stdout + refused.stderr).decode()
