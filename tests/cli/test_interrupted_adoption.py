"""`kafkad adopt --yes` that was killed before any of its changes is repeated: then the topics are as they should be."""

import os
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

from kafkad.adapters.stores.embedded_store import FILE_NAME
from kafkad.cli.adoption.takeover import stored_metadata
from kafkad.core.controller.store.stored_metadata import StoredTopic
from tests.cli.test_adopt import content, log_dir, run

__all__ = ["log_dir"]

KILLED = 9
CONNECT, REPLACE, UNLINK = sqlite3.connect, os.replace, os.unlink


class Mortal:
    """A process that ends before the change after so many."""

    def __init__(self, changes: int) -> None:
        self._left = changes

    def before_change(self) -> None:
        if not self._left:
            os._exit(KILLED)
        self._left -= 1

    def connect(self, path: str, **options: Any) -> sqlite3.Connection:
        """To a store whose commits are changes."""
        mortal = self

        class Connection(sqlite3.Connection):
            def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
                if sql == "COMMIT":
                    mortal.before_change()
                return super().execute(sql, *parameters)

        return CONNECT(path, factory=Connection, **options)

    def replace(self, source: str, target: str) -> None:
        self.before_change()
        REPLACE(source, target)

    def unlink(self, path: str, **options: Any) -> None:
        self.before_change()
        UNLINK(path, **options)


def adopt_until(folder: Path, changes: int) -> bool:
    """In a process of its own; whether it came to its end."""
    child = os.fork()
    if not child:
        mortal = Mortal(changes)
        sqlite3.connect = mortal.connect  # type: ignore[assignment]
        os.replace, os.unlink = mortal.replace, mortal.unlink  # type: ignore[assignment]
        os._exit(run("--yes", folder).exit_code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
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
    stateless = {name: replace(topic, states={}, written_ids={}) for name, topic in expected.items()}
    before = tmp_path / "before"
    shutil.copytree(log_dir, before)
    changes = 0
    while not adopt_until(log_dir, changes):
        for name, topic in (topics(log_dir) if (log_dir / FILE_NAME).exists() else {}).items():
            assert (topic.id, topic.configs) == (expected[name].id, expected[name].configs), changes
        result = run("--yes", log_dir)
        assert result.exit_code == 0, (changes, result.output)
        found = topics(log_dir)
        assert {name: replace(topic, states={}, written_ids={}) for name, topic in found.items()} == stateless, changes
        # Those that are missing are made at the start of the broker, above every epoch on disk.
        assert all(topic.states in ({}, expected[name].states) for name, topic in found.items()), changes
        assert logs.items() <= content(log_dir).items()
        shutil.rmtree(log_dir)
        shutil.copytree(before, log_dir)
        changes += 1
    assert changes > 10
    assert topics(log_dir) == expected
