"""`kafkad adopt --yes` that was killed before any of its changes is repeated: then the topics are as they should be."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

from kafkad.adapters.stores.embedded_store import FILE_NAME, EmbeddedStore
from kafkad.cli.adoption.handing_over import stored_metadata
from kafkad.core.controller.store.stored_metadata import StoredTopic
from tests.cli.test_adopt import content, log_dir, run

__all__ = ["log_dir"]

KILLED = 9


def adopt_until(folder: Path, changes: int) -> bool:
    """In a process of its own, which ends before the change after so many; whether it came to its end."""
    child = os.fork()
    if not child:
        left = changes

        def die(change: object) -> object:
            def changed(*args: object, **kwargs: object) -> object:
                nonlocal left
                if not left:
                    os._exit(KILLED)
                left -= 1
                assert callable(change)
                return change(*args, **kwargs)

            return changed

        EmbeddedStore._commit = die(EmbeddedStore._commit)  # type: ignore[method-assign,assignment]
        os.replace = die(os.replace)  # type: ignore[assignment]
        os.unlink = die(os.unlink)  # type: ignore[assignment]
        os._exit(run("--yes", folder).exit_code)
    status = os.waitpid(child, 0)[1]
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, KILLED)
    return code == 0


def topics(folder: Path) -> dict[str, StoredTopic]:
    return dict(stored_metadata(folder).topics)


def test_an_adoption_that_is_killed_at_any_step_is_made_when_it_is_repeated(log_dir: Path, tmp_path: Path) -> None:
    logs = {name: data for name, data in content(log_dir).items() if name.endswith((".log", "-checkpoint"))}
    undisturbed = tmp_path / "undisturbed"
    shutil.copytree(log_dir, undisturbed)
    assert run("--yes", undisturbed).exit_code == 0
    expected = topics(undisturbed)
    stateless = {name: replace(topic, states={}) for name, topic in expected.items()}
    before = tmp_path / "before"
    shutil.copytree(log_dir, before)
    changes = 0
    while not adopt_until(log_dir, changes):
        for name, topic in (topics(log_dir) if (log_dir / FILE_NAME).exists() else {}).items():
            assert (topic.id, topic.configs) == (expected[name].id, expected[name].configs), changes
        result = run("--yes", log_dir)
        assert result.exit_code == 0, (changes, result.output)
        found = topics(log_dir)
        assert {name: replace(topic, states={}) for name, topic in found.items()} == stateless, changes
        # Those that are missing are made at the start of the broker, above every epoch on disk.
        assert all(topic.states in ({}, expected[name].states) for name, topic in found.items()), changes
        assert logs.items() <= content(log_dir).items()
        shutil.rmtree(log_dir)
        shutil.copytree(before, log_dir)
        changes += 1
    assert changes > 10
    assert topics(log_dir) == expected
