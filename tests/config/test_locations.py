"""Where data, sockets and plugins are when the configuration does not say."""

from pathlib import Path

from kafkad.config import load
from kafkad.config.locations import default_log_dir, default_runtime_dir


def test_folders_that_the_service_manager_has_made_come_first() -> None:
    environment = {"STATE_DIRECTORY": "/var/lib/kafkad@x", "RUNTIME_DIRECTORY": "/run/kafkad@x", "HOME": "/nowhere"}
    assert default_log_dir(environment, is_root=False) == "/var/lib/kafkad@x"
    assert default_runtime_dir(environment, is_root=False) == "/run/kafkad@x"


def test_data_of_users_is_in_their_home() -> None:
    assert default_log_dir({"HOME": "/home/x"}, is_root=False) == "/home/x/.local/share/kafkad"
    assert default_log_dir({"HOME": "/root"}, is_root=True) == "/var/lib/kafkad"


def test_plugins_folder_of_the_package_is_used_as_soon_as_it_is_there(tmp_path: Path) -> None:
    environment = {"KAFKAD_PLUGINS_DIR": str(tmp_path / "plugins"), "HOME": "/nowhere"}
    assert load(None, environ=environment).plugins.dir == ""
    (tmp_path / "plugins").mkdir()
    assert load(None, environ=environment).plugins.dir == str(tmp_path / "plugins")
    named = load(None, [("kafkad.plugins.dir", "/elsewhere")], environ=environment)
    assert named.plugins.dir == "/elsewhere"
