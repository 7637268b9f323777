"""From a configuration to a broker: what is imported, and which plugins it has to have."""

import subprocess
import sys
from pathlib import Path

import pytest

from kafkad.plugin_loading import UnknownObject
from kafkad.startup import load_plugins, start_broker
from tests.config.configurations import configured


def test_broker_does_not_load_the_test_tools_that_kio_looks_for() -> None:
    program = (
        "import sys; from kafkad.startup import import_kio_alone; import_kio_alone();"
        "import kio.schema.produce.v9.request; print(sorted({'hypothesis', 'pytest'} & set(sys.modules)));"
        "import hypothesis.strategies"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout == "[]\n"


@pytest.mark.parametrize(
    ("blocked", "missing"),
    [
        ("retention", "cleanup.policy=delete: not registered by any plugin; registered: compact, delete-exported"),
        (
            "leader_election",
            "kafkad.leader.election.strategy=preferred: not registered by any plugin; registered: none",
        ),
        ("client_quotas", "kafkad.quota.manager=client-id: not registered by any plugin; registered: none"),
        (
            "replication_quota",
            "kafkad.replication.quota.manager=throttled-rate: not registered by any plugin; registered: none",
        ),
        ("prometheus", "kafkad.metrics.reporters=prometheus: not registered by any plugin; registered: none"),
        ("group_assignors", "group.consumer.assignors=uniform: not registered by any plugin; registered: none"),
    ],
)
def test_a_built_in_plugin_that_nobody_stands_in_for_can_t_be_blocked(blocked: str, missing: str) -> None:
    config = configured(("kafkad.plugins.blocked", blocked))
    with pytest.raises(UnknownObject) as refusal:
        load_plugins(config)
    assert str(refusal.value) == f"{missing} (kafkad.plugins.blocked={blocked})"


def test_what_is_not_needed_can_be_blocked() -> None:
    config = configured(("kafkad.plugins.blocked", "prometheus, nobody"), ("kafkad.metrics.reporters", ""))
    plugins = load_plugins(config)
    assert not plugins.metrics_reporters
    assert plugins.blocked_unknown == ("nobody",)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("kafkad.quota.manager", "generous", "kafkad.quota.manager=generous: not registered by any plugin"),
        ("replica.selector.class", "nearest", "replica.selector.class=nearest: not registered by any plugin"),
        ("kafkad.metrics.reporters", "prometheus,fax", "kafkad.metrics.reporters=fax: not registered by any plugin"),
        ("kafkad.plugins.dir", "/no/such/folder", "kafkad.plugins.dir is not a folder"),
    ],
)
def test_plugin_that_is_not_there_is_one_line_and_exit_code_2(
    name: str, value: str, said: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for stream in ("stdout", "stderr"):
        # A broker puts its own in their place; they come back.
        monkeypatch.setattr(sys, stream, getattr(sys, stream))
    assert start_broker(configured((name, value))) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("kafkad: ") and said in line


POLICY = """
from kafkad.api import hookimpl

class Archive:
    name = "archive"

    def plan(self, log, config, now_ms):
        return []

@hookimpl
def kafkad_register_cleanup_policies():
    return [Archive()]
"""


def test_policy_of_all_topics_may_be_a_plugin_s(tmp_path: Path) -> None:
    policy = ("log.cleanup.policy", "archive,delete")
    with pytest.raises(UnknownObject, match=r"Invalid value archive for configuration log\.cleanup\.policy"):
        load_plugins(configured(policy))
    (tmp_path / "archive.py").write_text(POLICY)
    assert "archive" in load_plugins(configured(policy, ("kafkad.plugins.dir", str(tmp_path)))).cleanup_policies


TOPIC_CONFIG = """
from kafkad.api import SettingType, TopicConfig, hookimpl

@hookimpl
def kafkad_register_topic_configs(settings):
    default = settings["kafkad.plugin.mine"]
    return [TopicConfig(name="kafkad.plugin.mine", type=SettingType.STRING, default=default, documentation="Mine.")]
"""


def test_register_hooks_are_given_the_configuration_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TOPIC_CONFIG)
    config = configured(("kafkad.plugins.dir", str(tmp_path)), ("kafkad.plugin.mine", "5"))
    assert load_plugins(config).topic_configs["kafkad.plugin.mine"].default == "5"
