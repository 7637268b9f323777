"""The content of a plugins folder, and installation and removal of plugins.

The folder has plugins that are single files. Each package has a separate folder below `packages/`, with the
dependencies that kafkad does not have. So packages of kafkad are never replaced, and the removal of a plugin does not
affect others. A change with which no broker could start is reverted.
"""

import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from kafkad.plugin_discovery import ENTRY_POINT_GROUP, PACKAGES, PluginFailed
from kafkad.plugin_loading import NO_SETTINGS, load

_HIDDEN = "."
"""The prefix of temporary names: of new files before they are installed, and of old files that may be restored."""


class NotInstalled(Exception):
    """Nothing was changed; the message has the reason in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPackage:
    """A package in the folder, with its normalized name and its plugins."""

    name: str
    version: str
    plugins: tuple[str, ...]


class PluginFolder:
    """A plugins folder. `path` may be missing before the first plugin.

    `blocked` and `settings` are options of the broker, for the check that a broker can start.
    """

    def __init__(self, path: Path, *, blocked: Collection[str] = (), settings: Mapping[str, str] = NO_SETTINGS) -> None:
        self.path = path
        self._blocked = blocked
        self._settings = settings

    def package(self, name: str) -> Path:
        return self.path / PACKAGES / name

    def packages(self) -> list[InstalledPackage]:
        found = []
        for folder in sorted((self.path / PACKAGES).glob("*")):
            known = describe(folder, folder.name) if not folder.name.startswith(_HIDDEN) else None
            if known is not None:
                found.append(known)
        return found

    def install_file(self, file: Path) -> None:
        """Copy one Python file into the folder."""
        if not file.stem.isidentifier() or file.name.startswith("_"):
            raise NotInstalled(f"{file.name}: the name of a plugin file must be an importable Python name")
        self._make()
        with self._replaced(self.path / file.name) as place:
            shutil.copyfile(file, place)
            place.chmod(0o644)

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """An empty folder on the same disk, which is removed afterwards."""
        self._make()
        stage = self.path / PACKAGES / f"{_HIDDEN}stage-{os.getpid()}"
        shutil.rmtree(stage, ignore_errors=True)
        stage.mkdir(mode=0o755, parents=True)
        try:
            yield stage
        finally:
            shutil.rmtree(stage, ignore_errors=True)

    def install_staged(self, stage: Path, name: str) -> InstalledPackage:
        """Move the files in `stage` into the folder as the package `name`."""
        known = describe(stage, name)
        if known is None or not known.plugins:
            raise NotInstalled(f"{name} is not a plugin: it has no entry point in the group {ENTRY_POINT_GROUP}")
        with self._replaced(self.package(name)) as place:
            stage.rename(place)
        return known

    def remove(self, name: str) -> str:
        """Remove the file or package of this name, or the package with a plugin of this name.

        Returns the name of the file or package.
        """
        file = self.path / f"{name}.py"
        if file.is_file():
            file.unlink()
            return str(file)
        for package in self.packages():
            if name in (package.name, *package.plugins):
                shutil.rmtree(self.package(package.name))
                return f"{package.name} {package.version}"
        raise NotInstalled(f"no plugin {name} in {self.path}")

    def _make(self) -> None:
        # Readable for the broker's user, independent of root's umask.
        os.umask(0o022)
        self.path.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def _replaced(self, place: Path) -> Iterator[Path]:
        """Replace the plugin at `place`. The old plugin is restored if no broker could start with the new one."""
        before = place.with_name(f"{_HIDDEN}before-{place.name}")
        _delete(before)
        if place.exists():
            place.rename(before)
        try:
            yield place
            load(directory=str(self.path), blocked=self._blocked, settings=self._settings)
        except (PluginFailed, OSError) as failure:
            _delete(place)
            if before.exists():
                before.rename(place)
            if isinstance(failure, PluginFailed):
                raise NotInstalled(str(failure)) from failure
            raise
        _delete(before)


def describe(folder: Path, name: str) -> InstalledPackage | None:
    """The package `name` in `folder`; None if it does not exist."""
    for found in distributions(path=[str(folder)]):
        if normalized(found.name) == name:
            plugins = tuple(point.name for point in found.entry_points if point.group == ENTRY_POINT_GROUP)
            return InstalledPackage(name=name, version=found.version, plugins=plugins)
    return None


def normalized(name: str) -> str:
    """The normalized name, as package indexes compare names."""
    return name.lower().replace("_", "-").replace(".", "-")


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
