"""Plugins are found, named when they can't be used, and replace the defaults and nothing else."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkad import hookspecs
from kafkad.plugin_discovery import PluginFailed
from kafkad.plugin_loading import LoadedPlugin, Plugins, RegisteredObject, UnknownObject, chosen, load
from kafkad.plugins import BUILT_IN

AddPlugin = Callable[[str, str], Path]

POLICY = """
from kafkad.api import hookimpl

class Policy:
    name = {name!r}
    def plan(self, log, config, now_ms):
        return []

@hookimpl
def kafkad_register_cleanup_policies():
    return [Policy()]
"""


@pytest.fixture
def add_plugin(tmp_path: Path) -> AddPlugin:
    def add(file: str, source: str) -> Path:
        path = tmp_path / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
        return path

    return add


def plugin(plugins: Plugins, name: str) -> LoadedPlugin:
    (found,) = [loaded for loaded in plugins.loaded if loaded.name == name]
    return found


def test_the_built_in_plugins_register_a_default_of_each_kind() -> None:
    plugins = load()
    assert set(plugins.cleanup_policies) == {"delete", "delete-exported", "compact"}
    assert set(plugins.leader_election_strategies) == {"preferred"}
    assert set(plugins.quota_managers) == {"client-id"}
    assert set(plugins.replication_quota_managers) == {"throttled-rate"}
    kafkas = "org.apache.kafka.common.replica."
    assert set(plugins.replica_selectors) == {f"{kafkas}LeaderSelector", f"{kafkas}RackAwareReplicaSelector"}
    assert set(plugins.metrics_reporters) == {"prometheus"}
    assert set(plugins.group_assignors) == {"uniform", "range"}
    assert len(plugins.loaded) == len(BUILT_IN)


def test_files_and_packages_of_the_folder_are_plugins(add_plugin: AddPlugin, tmp_path: Path) -> None:
    file = add_plugin("tidy.py", POLICY.format(name="tidy"))
    add_plugin("sweep/__init__.py", "from .rule import kafkad_register_cleanup_policies")
    add_plugin("sweep/rule.py", POLICY.format(name="sweep"))
    add_plugin("_draft.py", "this is no Python")
    add_plugin("notes.txt", "nor is this")
    plugins = load(directory=str(tmp_path))
    assert set(plugins.cleanup_policies) == {"compact", "delete", "delete-exported", "tidy", "sweep"}
    assert plugin(plugins, "tidy") == LoadedPlugin(
        name="tidy",
        version="",
        source=str(file),
        hooks=("kafkad_register_cleanup_policies",),
        objects=(RegisteredObject(kind="cleanup policy", name="tidy"),),
    )


def test_installed_packages_are_found_by_their_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kafkad_tidy_plugin.py").write_text(POLICY.format(name="tidy"))
    metadata = tmp_path / "kafkad_tidy-2.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: kafkad-tidy\nVersion: 2.1\n")
    (metadata / "entry_points.txt").write_text("[kafkad]\ntidy = kafkad_tidy_plugin\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = plugin(load(), "tidy")
    assert (found.version, found.source) == ("2.1", "package kafkad-tidy, kafkad_tidy_plugin")
    assert "tidy" not in load(enabled=False).cleanup_policies


def test_a_plugin_replaces_a_default_of_the_same_name(add_plugin: AddPlugin, tmp_path: Path) -> None:
    add_plugin("own_delete.py", POLICY.format(name="delete"))
    plugins = load(directory=str(tmp_path))
    assert type(plugins.cleanup_policies["delete"]).__name__ == "Policy"
    assert plugin(plugins, "retention").objects == (
        RegisteredObject(kind="cleanup policy", name="delete", replaced_by="own_delete"),
    )


def test_two_plugins_with_one_name_for_a_thing_are_both_told(add_plugin: AddPlugin, tmp_path: Path) -> None:
    first = add_plugin("first.py", POLICY.format(name="tidy"))
    second = add_plugin("second.py", POLICY.format(name="tidy"))
    with pytest.raises(PluginFailed, match="'tidy'") as failure:
        load(directory=str(tmp_path))
    assert str(first) in str(failure.value)
    assert str(second) in str(failure.value)


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("import there_is_no_such_module", "ModuleNotFoundError: No module named 'there_is_no_such_module'"),
        ("def broken(:", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("kafkad_requires = 2\n" + POLICY, "it requires hooks of version 2; this kafkad has version 1"),
        ("x = 1", "it implements no hook of kafkad"),
        (POLICY.replace("cleanup_policies", "cleanup_polices"), "unknown hook"),
        (POLICY.replace("policies():", "policies(broker):"), "broker"),
        (POLICY.replace("    return [Policy()]", "    return 1 / 0"), "ZeroDivisionError: division by zero"),
        (POLICY.replace("plan", "plane"), "cleanup policy '{name}' lacks plan"),
        (POLICY.replace("name = {name!r}", "nom = 1"), "a cleanup policy needs a name"),
        (POLICY.replace("name = {name!r}", "name = 7"), "a cleanup policy needs a name"),
    ],
)
def test_a_plugin_that_fails_is_named_with_file_and_cause(
    source: str, cause: str, add_plugin: AddPlugin, tmp_path: Path
) -> None:
    file = add_plugin("bad.py", source.replace("{name!r}", "'{name}'"))
    with pytest.raises(PluginFailed) as failure:
        load(directory=str(tmp_path))
    assert failure.value.name == "bad"
    assert failure.value.source == str(file)
    assert cause in failure.value.cause


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(PluginFailed, match="is not a folder"):
        load(directory=str(tmp_path / "nowhere"))


def test_a_plugin_named_like_a_module_of_python_hides_nothing(add_plugin: AddPlugin, tmp_path: Path) -> None:
    add_plugin("json.py", POLICY.format(name="json"))
    assert "json" in load(directory=str(tmp_path)).cleanup_policies
    import json  # noqa: PLC0415  # after the plugin: that is the point

    assert json.loads("[1]") == [1]


def test_observers_are_told_of_start_and_stop(add_plugin: AddPlugin, tmp_path: Path) -> None:
    add_plugin(
        "watcher.py",
        "from kafkad.api import hookimpl\n"
        "seen = []\n"
        "@hookimpl\n"
        "def kafkad_broker_started(info): seen.append(('started', info.broker_id))\n"
        "@hookimpl\n"
        "def kafkad_broker_stopping(info): seen.append(('stopping', info.listeners))\n",
    )
    plugins = load(directory=str(tmp_path))
    info = hookspecs.BrokerInfo(
        version="1", broker_id=7, cluster_id="c", listeners=("PLAINTEXT://127.0.0.1:9092",), log_dirs=("/data",)
    )
    plugins.broker_started(info)
    plugins.broker_stopping(info)
    watcher = plugins.manager.get_plugin("watcher")
    assert watcher is not None
    assert watcher.seen == [("started", 7), ("stopping", ("PLAINTEXT://127.0.0.1:9092",))]


def test_a_name_that_nobody_registered_is_answered_with_those_there_are() -> None:
    managers = load().quota_managers
    assert chosen(managers, "client-id", "kafkad.quota.manager").name == "client-id"
    with pytest.raises(UnknownObject, match=r"kafkad\.quota\.manager=user: .* registered: client-id"):
        chosen(managers, "user", "kafkad.quota.manager")


def test_register_hooks_are_given_the_settings(add_plugin: AddPlugin, tmp_path: Path) -> None:
    takes = POLICY.replace("policies():", "policies(settings):").replace("Policy()", "Policy(settings)")
    takes = takes.replace("    name = {name!r}", "    def __init__(self, settings): self.name = settings['mine']")
    add_plugin("asking.py", takes)
    add_plugin("old.py", POLICY.format(name="takes-nothing"))
    plugins = load(directory=str(tmp_path), settings={"mine": "as-it-is-set"})
    assert set(plugins.cleanup_policies) == {"compact", "delete", "delete-exported", "as-it-is-set", "takes-nothing"}


def test_nobody_changes_the_settings(add_plugin: AddPlugin, tmp_path: Path) -> None:
    changes = POLICY.replace("policies():", "policies(settings):\n    settings['log.dirs'] = '/'")
    add_plugin("bad.py", changes.format(name="bad"))
    with pytest.raises(PluginFailed, match="does not support item assignment"):
        load(directory=str(tmp_path), settings={})


WRAPPER = """
from kafkad.api import hookimpl

class Wrapped:
    def __init__(self, policy):
        self.name = policy.name
        self.plan = policy.plan

@hookimpl(wrapper=True)
def kafkad_register_cleanup_policies(settings):
    answers = yield
    return [[Wrapped(policy) for policy in policies] for policies in answers]
"""

OLD_WRAPPER = """
from kafkad.api import hookimpl

@hookimpl(hookwrapper=True)
def kafkad_register_cleanup_policies():
    outcome = yield
    outcome.force_result([policies for policies in outcome.get_result() if policies[0].name != "tidy"])
"""


def test_a_wrapper_may_change_what_others_register(add_plugin: AddPlugin, tmp_path: Path) -> None:
    add_plugin("tidy.py", POLICY.format(name="tidy"))
    add_plugin("around.py", WRAPPER)
    plugins = load(directory=str(tmp_path))
    assert {type(policy).__name__ for policy in plugins.cleanup_policies.values()} == {"Wrapped"}
    assert plugin(plugins, "around").objects == (
        RegisteredObject(kind="cleanup policy", name="compact"),
        RegisteredObject(kind="cleanup policy", name="delete-exported"),
        RegisteredObject(kind="cleanup policy", name="delete"),
        RegisteredObject(kind="cleanup policy", name="tidy"),
    )
    assert plugin(plugins, "tidy").objects == (
        RegisteredObject(kind="cleanup policy", name="tidy", replaced_by="around"),
    )


def test_a_wrapper_of_the_old_kind_may_take_something_out(add_plugin: AddPlugin, tmp_path: Path) -> None:
    add_plugin("tidy.py", POLICY.format(name="tidy"))
    add_plugin("without.py", OLD_WRAPPER)
    plugins = load(directory=str(tmp_path))
    assert set(plugins.cleanup_policies) == {"compact", "delete", "delete-exported"}
    assert plugin(plugins, "tidy").objects == (
        RegisteredObject(kind="cleanup policy", name="tidy", replaced_by="without"),
    )


def test_one_module_may_register_and_wrap(add_plugin: AddPlugin, tmp_path: Path) -> None:
    both = WRAPPER.replace("wrapper=True", "wrapper=True, specname='kafkad_register_cleanup_policies'")
    both = both.replace("def kafkad_register_cleanup_policies(settings)", "def around(settings)")
    add_plugin("both.py", both + POLICY.format(name="tidy"))
    plugins = load(directory=str(tmp_path))
    assert set(plugins.cleanup_policies) == {"compact", "delete", "delete-exported", "tidy"}
    assert {type(policy).__name__ for policy in plugins.cleanup_policies.values()} == {"Wrapped"}


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        (WRAPPER.replace("    return ", "    1 / 0\n    return "), "ZeroDivisionError"),
        (WRAPPER.replace("    return ", "    return None and "), "TypeError"),
        (WRAPPER.replace("[Wrapped(policy) for policy in policies]", "[object()]"), "a cleanup policy needs a name"),
        (WRAPPER.replace("    answers = yield\n    return ", "    return answers and "), "not a generator function"),
    ],
)
def test_a_wrapper_that_fails_is_named(source: str, cause: str, add_plugin: AddPlugin, tmp_path: Path) -> None:
    add_plugin("tidy.py", POLICY.format(name="tidy"))
    add_plugin("around.py", source)
    with pytest.raises(PluginFailed) as failure:
        load(directory=str(tmp_path))
    assert failure.value.name == "around"
    assert cause in failure.value.cause


def test_what_fails_within_a_wrapper_is_named_itself(add_plugin: AddPlugin, tmp_path: Path) -> None:
    bad = add_plugin("bad.py", POLICY.format(name="bad").replace("return [Policy()]", "return 1 / 0"))
    add_plugin("around.py", WRAPPER)
    with pytest.raises(PluginFailed, match="ZeroDivisionError") as failure:
        load(directory=str(tmp_path))
    assert failure.value.source == str(bad)


def test_observers_may_be_wrapped(add_plugin: AddPlugin, tmp_path: Path) -> None:
    observer = "from kafkad.api import hookimpl\nseen = []\n@hookimpl{}\ndef kafkad_broker_started(info): {}\n"
    add_plugin("inner.py", observer.format("", "1 / 0"))
    guard = "\n    try: return (yield)\n    except ZeroDivisionError: seen.append(info.broker_id)"
    add_plugin("outer.py", observer.format("(wrapper=True)", guard))
    plugins = load(directory=str(tmp_path))
    plugins.broker_started(hookspecs.BrokerInfo(version="1", broker_id=7, cluster_id="c", listeners=(), log_dirs=()))
    outer = plugins.manager.get_plugin("outer")
    assert outer is not None
    assert outer.seen == [7]


def test_a_blocked_plugin_is_shown_and_not_even_imported(add_plugin: AddPlugin, tmp_path: Path) -> None:
    file = add_plugin("bad.py", "raise SystemExit('imported')")
    plugins = load(directory=str(tmp_path), blocked=("bad", "nobody"))
    assert plugin(plugins, "bad") == LoadedPlugin(
        name="bad", version="", source=str(file), hooks=(), objects=(), is_blocked=True
    )
    assert plugins.blocked_unknown == ("nobody",)


def test_a_blocked_plugin_takes_its_name_from_nobody_else(add_plugin: AddPlugin, tmp_path: Path) -> None:
    add_plugin("own.py", POLICY.format(name="delete"))
    plugins = load(directory=str(tmp_path), blocked=("retention",))
    assert plugin(plugins, "own").objects == (RegisteredObject(kind="cleanup policy", name="delete"),)
    assert plugin(plugins, "retention").is_blocked


def test_among_defaults_the_one_that_was_there_first_is_used(add_plugin: AddPlugin, tmp_path: Path) -> None:
    """As with pluggy: of several `trylast`, the one that is registered first is asked first."""
    last = POLICY.replace("@hookimpl", "@hookimpl(trylast=True)")
    add_plugin("other.py", last.format(name="delete"))
    (replaced,) = plugin(load(directory=str(tmp_path)), "other").objects
    assert replaced.replaced_by == "retention"
