"""Whose runtime directory is it, and which ones did killed brokers leave?"""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from kafkad.adapters.files.runtime_directory import BROKER, RunningBroker, RuntimeDirectory, running_brokers


def test_a_directory_names_its_broker_until_it_is_removed(tmp_path: Path) -> None:
    """Seen from another process: a process has all its own locks."""
    with TemporaryDirectory() as base:
        made = RuntimeDirectory(Path(base), tmp_path / "a" / ".." / "data")
        assert _found_elsewhere(base) == str([RunningBroker(os.getpid(), tmp_path / "data")])
        made.remove()
        assert _found_elsewhere(base) == "[]"


def test_what_a_killed_broker_left_is_nobodys_and_goes_with_the_next_start(tmp_path: Path) -> None:
    with TemporaryDirectory() as base:
        code = f"import os; {_IMPORT}; RuntimeDirectory(Path({base!r}), Path('/data')); os.kill(os.getpid(), 9)"
        subprocess.run([sys.executable, "-c", code], check=False)
        (left,) = Path(base).iterdir()
        assert (left / BROKER).read_text() == "/data"
        assert running_brokers(Path(base)) == []
        made = RuntimeDirectory(Path(base), tmp_path)
        assert list(Path(base).iterdir()) == [made.path]
        made.remove()


def test_a_directory_of_another_program_stays(tmp_path: Path) -> None:
    with TemporaryDirectory() as base:
        other = Path(base) / "kafkad-xxxxxxxx"
        other.mkdir()
        (other / "notes").touch()
        made = RuntimeDirectory(Path(base), tmp_path)
        assert other.exists()
        assert running_brokers(Path(base)) == []
        made.remove()


def test_starts_at_the_same_time_leave_each_others_directories(tmp_path: Path) -> None:
    """Whenever the one opens or locks a file, another broker starts and ends."""
    with TemporaryDirectory() as base:
        other = Path(base) / "kafkad-xxxxxxxx"
        (other / BROKER).mkdir(parents=True)
        code = f"""
import sys
{_IMPORT}
base, events, is_nested = Path({base!r}), [], False
def meanwhile(event, _):
    global is_nested
    if event in ("open", "fcntl.flock", "fcntl.lockf") and not is_nested:
        is_nested = True
        events.append(event)
        RuntimeDirectory(base, base).remove()
        is_nested = False
sys.addaudithook(meanwhile)
made = RuntimeDirectory(base, base)
is_nested = True
print(events[-3:], made.path.exists())
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert (done.stderr, done.stdout) == ("", "['fcntl.flock', 'open', 'fcntl.lockf'] True\n")
        assert other.exists(), "that of another program"


_IMPORT = "from pathlib import Path; from kafkad.adapters.files.runtime_directory import *"


def _found_elsewhere(base: str) -> str:
    code = f"{_IMPORT}; print(running_brokers(Path({base!r})))"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
