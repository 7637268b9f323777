"""What `make venv` says on machines that lack something. The machines are folders of stand-in commands."""

import os
import subprocess
from pathlib import Path

from bench.brokers.processes import WITHIN_S

SCRIPT = Path(__file__).parents[2] / "packaging" / "checkout" / "venv.sh"
_USER = "#!/bin/sh\necho 1000\n"
_ROOT = "#!/bin/sh\necho 0\n"
_OLD_PYTHON = "#!/bin/sh\nexit 1\n"
# Answers the version question with yes, the question for its venv module with no, and says its version.
_BARE_PYTHON = """#!/bin/sh
case "$2" in
    *version_info*11*) exit 0 ;;
    *ensurepip*) exit 1 ;;
    *print*) echo python3.11-venv ;;
esac
"""


def _run(machine: Path, commands: dict[str, str], folder: str = "venv") -> subprocess.CompletedProcess[str]:
    for name, script in commands.items():
        (machine / name).write_text(script)
        (machine / name).chmod(0o755)
    return subprocess.run(
        ["/bin/sh", str(SCRIPT), folder],
        env={"PATH": str(machine)},
        cwd=machine,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )


def test_missing_python_is_one_line_with_the_command_that_gets_it(tmp_path: Path) -> None:
    outcome = _run(tmp_path, {"id": _USER})
    assert outcome.returncode == 1
    assert outcome.stderr == (
        "kafkad: Python 3.11 or later was not found; install it with: sudo apt-get install python3 python3-venv\n"
    )


def test_python_that_is_too_old_is_not_taken(tmp_path: Path) -> None:
    outcome = _run(tmp_path, {"id": _USER, "python3": _OLD_PYTHON})
    assert outcome.returncode == 1
    assert "Python 3.11 or later" in outcome.stderr


def test_python_without_venv_is_one_line_with_the_command_that_gets_it(tmp_path: Path) -> None:
    outcome = _run(tmp_path, {"id": _USER, "python3": _BARE_PYTHON})
    assert outcome.returncode == 1
    assert outcome.stderr == (
        f"kafkad: {tmp_path}/python3 has no venv module; install it with: sudo apt-get install python3.11-venv\n"
    )


def test_root_gets_what_is_missing_installed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    apt_get = f'#!/bin/sh\necho "$@" >>{log}\n'
    outcome = _run(tmp_path, {"id": _ROOT, "python3": _BARE_PYTHON, "apt-get": apt_get})
    # The stand-in for Python makes no environment, so the script ends there; what it asked for is what counts.
    assert outcome.returncode != 0
    asked = log.read_text()
    assert "install -y -qq --no-install-recommends python3.11-venv\n" in asked
    assert "install -y -qq --no-install-recommends kcat\n" in asked


def test_folder_that_is_no_virtual_environment_is_left_alone(tmp_path: Path) -> None:
    python = "#!/bin/sh\nexit 0\n"
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    outcome = _run(tmp_path, {"id": _USER, "python3": python, "kcat": python}, folder="precious")
    assert outcome.returncode == 1
    assert "is not a virtual environment" in outcome.stderr
    assert os.listdir(precious) == ["file"]
