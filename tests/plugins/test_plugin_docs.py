"""docs/plugins.md and the code name the same hooks, methods, versions and files."""

import inspect
import re
from pathlib import Path

import pytest

from kafkad import hookspecs, testing
from kafkad.core.cleanup import CleanupPolicy
from kafkad.core.election import LeaderElectionStrategy
from kafkad.core.groups.consumer.assignors import GroupAssignor
from kafkad.core.metrics.metric import MetricsReporter
from kafkad.core.quotas.manager import QuotaManager
from kafkad.core.quotas.replication_quota import ReplicaQuota, ReplicationQuotaManager
from kafkad.core.replica_selector import ReplicaSelector
from kafkad.core.settings.topic_config import TopicConfig
from kafkad.plugin_loading import load

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "plugins.md").read_text()
NOT_TO_BE_OVERRIDDEN = {"host", "limiting"}
HOOKS = {name: hook for name, hook in vars(hookspecs).items() if name.startswith("kafkad_")}


def documented_signatures() -> dict[str, str]:
    return {found[1]: found[2] for found in re.finditer(r"^### `(kafkad_\w+)(.*)`$", TEXT, re.MULTILINE)}


def signature_of(hook: object) -> str:
    assert callable(hook)
    text = str(inspect.signature(hook))
    return re.sub(r"(?:collections\.abc|kafkad(?:\.\w+)*)\.(?=\w)", "", text)


def test_every_hook_is_documented_with_its_signature() -> None:
    assert documented_signatures() == {name: signature_of(hook) for name, hook in HOOKS.items()}


def test_every_hook_says_when_it_is_called_and_what_an_exception_does() -> None:
    for name, hook in HOOKS.items():
        contract = inspect.getdoc(hook) or ""
        for promise in ("Called:", "process", "xception"):
            assert promise in contract, f"{name} does not say {promise}"


@pytest.mark.parametrize(
    "protocol",
    [
        CleanupPolicy,
        LeaderElectionStrategy,
        QuotaManager,
        ReplicaQuota,
        ReplicationQuotaManager,
        ReplicaSelector,
        MetricsReporter,
        GroupAssignor,
        TopicConfig,
    ],
)
def test_every_member_of_a_registered_object_is_documented(protocol: type) -> None:
    members = {name for name in vars(protocol) if not name.startswith("_")} | set(protocol.__annotations__)
    for member in members:
        declared = getattr(protocol, member, None)
        arguments = list(inspect.signature(declared).parameters)[1:] if inspect.isfunction(declared) else None
        expected = member if arguments is None else f"{member}({', '.join(arguments)})"
        assert f"`{expected}`" in TEXT, f"{protocol.__name__}.{expected}"


def test_the_hook_version_is_the_documented_one() -> None:
    assert f"the version of the hooks, **{hookspecs.HOOKSPEC_VERSION}**" in TEXT
    assert f"kafkad_requires = {hookspecs.HOOKSPEC_VERSION}" in TEXT


def test_every_file_named_is_there() -> None:
    for path in re.findall(r"`((?:examples|kafkad)/[\w/.]+)`", TEXT):
        assert (ROOT / path).exists(), path


def test_the_example_in_the_text_is_a_plugin(tmp_path: Path) -> None:
    whole, wrapper, suite = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "keep_newest.py").write_text(whole)
    (tmp_path / "logged.py").write_text(wrapper)
    plugins = load(directory=str(tmp_path))
    assert "keep-newest" in plugins.cleanup_policies
    assert type(plugins.leader_election_strategies["preferred"]).__name__ == "Logged"
    compile(suite, "docs/plugins.md", "exec")


def test_every_suite_is_documented_with_its_fixtures() -> None:
    suites = [name for name in testing.__all__ if name.endswith("Suite")]
    rows = dict(re.findall(r"^\| `(\w+Suite)` \| (.*) \|$", TEXT, re.MULTILINE))
    assert set(rows) == set(suites)
    for name, row in rows.items():
        fixtures = {attribute for attribute in vars(getattr(testing, name)) if not attribute.startswith(("_", "test"))}
        assert set(re.findall(r"`(\w+)`", row)) == fixtures - NOT_TO_BE_OVERRIDDEN
