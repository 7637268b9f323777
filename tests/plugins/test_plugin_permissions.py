"""Nothing is executed that somebody else may write."""

import grp
import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from kafkad.plugin_discovery import PluginFailed
from kafkad.plugin_loading import load
from kafkad.plugin_permissions import check_permissions

NOBODY = 65_534


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a file, a package, and a plugin that `kafkad plugins install` has put there."""
    made = tmp_path / "plugins"
    for name in ("file.py", "package/__init__.py", "packages/some/some/rule.py", "__pycache__/file.cpython-311.pyc"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text("raise AssertionError('it was executed')")
    for path in (made, *made.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return made


def refused(folder: Path, path: Path) -> str:
    with pytest.raises(PluginFailed) as failure:
        load(directory=str(folder))
    assert str(path) in failure.value.cause
    return failure.value.cause


def test_a_folder_that_only_its_owner_may_write_is_fine(folder: Path) -> None:
    (folder / "link.py").symlink_to("nowhere")
    (folder / ".before-file.py").write_text("")
    (folder / ".before-file.py").chmod(0o666)
    check_permissions(str(folder))


@pytest.mark.parametrize("mode", [0o757, 0o777])
@pytest.mark.parametrize("name", ["", "package", "packages", "packages/some/some", "__pycache__"])
def test_a_folder_that_others_may_write_is_refused(folder: Path, name: str, mode: int) -> None:
    (folder / name).chmod(mode)
    assert f"may be written by others (mode {mode:o})" in refused(folder, folder / name)


@pytest.mark.parametrize(
    "name", ["file.py", "package/__init__.py", "packages/some/some/rule.py", "__pycache__/file.cpython-311.pyc"]
)
def test_a_file_that_others_may_write_is_refused(folder: Path, name: str) -> None:
    (folder / name).chmod(0o666)
    assert "may be written by others (mode 666)" in refused(folder, folder / name)


def test_a_group_may_write_only_if_it_is_the_owners_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "file.py").chmod(0o664)
    owner = pwd.getpwuid(os.geteuid()).pw_name
    entry = {"gr_passwd": "x", "gr_gid": pwd.getpwuid(os.geteuid()).pw_gid}
    monkeypatch.setattr(grp, "getgrgid", lambda gid: SimpleNamespace(gr_name=owner, gr_mem=[owner], **entry))
    check_permissions(str(folder))
    monkeypatch.setattr(grp, "getgrgid", lambda gid: SimpleNamespace(gr_name=owner, gr_mem=[owner, "bob"], **entry))
    refused(folder, folder / "file.py")
    monkeypatch.setattr(grp, "getgrgid", lambda gid: SimpleNamespace(gr_name="users", gr_mem=[], **entry))
    refused(folder, folder / "file.py")


def test_what_a_link_leads_to_counts(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    (elsewhere / "__init__.py").write_text("")
    (elsewhere / "__init__.py").chmod(0o666)
    (folder / "linked").symlink_to(elsewhere)
    refused(folder, elsewhere / "__init__.py")


@pytest.mark.parametrize("name", ["", "file.py"])
def test_what_belongs_to_another_user_is_refused(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        os.chown(folder / name, NOBODY, NOBODY)
        assert f"belongs to user {NOBODY}, expected root" in refused(folder, folder / name)
    else:
        owner = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
        assert f"belongs to user {owner}, expected root" in refused(folder, folder)


def test_a_folder_in_one_that_everybody_may_write_is_refused_unless_only_owners_may_rename(folder: Path) -> None:
    folder.parent.chmod(0o777)
    assert "may be written by everybody" in refused(folder, folder.parent)
    folder.parent.chmod(0o1777)
    check_permissions(str(folder))
