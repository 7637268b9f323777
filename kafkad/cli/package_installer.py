"""Install a package into a separate folder with pip.

pip first resolves the missing packages, with the versions of kafkad's packages as constraints: a package that requires
another version is rejected. Then pip installs the package and its missing dependencies into the folder.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from kafkad.cli.plugin_folder import InstalledPackage, NotInstalled, PluginFolder, normalized

_SYSTEM_WHEELS = Path("/usr/share/python-wheels")
"""The location of Debian's pip for virtual environments (package python3-pip-whl)."""
_CAUSE = "The conflict is caused by:"
_OUTPUT_OF_BUILD = re.compile(r"\[\d+ lines? of output\](.*?)\[end of output\]", re.DOTALL)
_BUILD_TOOLS = "build dependencies"
_MISSING = re.compile(r"satisfies the requirement (.+?) \(from versions: ")
_CONSTRAINT = "The user requested (constraint) "


def install_package(what: str, folder: PluginFolder) -> InstalledPackage:
    """Install a package of the index, or a wheel. Raises `NotInstalled`."""
    with TemporaryDirectory(prefix="kafkad-plugins-") as scratch:
        missing, name = _resolve(what, Path(scratch), folder)
        with folder.staging() as stage:
            _pip("install", "--quiet", "--no-deps", "--target", str(stage), *missing)
            return folder.install_staged(stage, name)


def _resolve(what: str, scratch: Path, folder: PluginFolder) -> tuple[list[str], str]:
    """The packages to install, as arguments for pip, and the name of the requested package."""
    constraints, report = scratch / "constraints", scratch / "report"
    constraints.write_text("".join(f"{line}\n" for line in sorted(_present_versions(folder))))
    _pip("install", "--dry-run", "--report", str(report), "--constraint", str(constraints), what)
    rows = json.loads(report.read_text())["install"]
    requested = [row["metadata"]["name"] for row in rows if row["requested"]]
    if not requested:
        raise NotInstalled(f"{what} is already part of kafkad")
    return [_argument(row) for row in rows], normalized(requested[0])


def _argument(row: dict[str, dict[str, str]]) -> str:
    url = row["download_info"]["url"]
    metadata = row["metadata"]
    return url if url.startswith("file:") else f"{metadata['name']}=={metadata['version']}"


def _present_versions(folder: PluginFolder) -> Iterator[str]:
    """The versions of all packages that kafkad can import without plugins."""
    path = [entry for entry in sys.path if not Path(entry).is_relative_to(folder.path)]
    for found in distributions(path=path):
        yield f"{found.name}=={found.version}"


def _pip(*arguments: str) -> None:
    common = ("--disable-pip-version-check", "--no-input", "--root-user-action=ignore")
    command = [sys.executable, *_pip_command(), arguments[0], *common, *arguments[1:]]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise NotInstalled(_reason(done.stdout + done.stderr))


def _pip_command() -> list[str]:
    if find_spec("pip") is not None:
        return ["-m", "pip"]
    wheels = sorted(_SYSTEM_WHEELS.glob("pip-*.whl"))
    if not wheels:
        raise NotInstalled("packages are installed with pip, which is missing: apt-get install python3-pip-whl")
    return [f"{wheels[-1]}/pip"]


def _reason(printed: str) -> str:
    """The reason of a failure, in one line, from pip's output."""
    if _CAUSE in printed:
        rows = printed.partition(_CAUSE)[2].strip().partition("\n\n")[0].splitlines()
        return "; ".join(row.strip().replace(_CONSTRAINT, "kafkad has ") for row in rows)
    errors = [line.removeprefix("ERROR: ").strip() for line in printed.splitlines() if line.startswith("ERROR: ")]
    return _reason_of_build(printed) or "; ".join(errors) or printed.strip().rpartition("\n")[2]


def _reason_of_build(printed: str) -> str | None:
    """The last line of a build tool: pip only reports that the tool failed."""
    output = _OUTPUT_OF_BUILD.search(printed)
    if output is None:
        return None
    missing = _MISSING.search(output[1])
    if missing is not None and _BUILD_TOOLS in printed:
        return (
            f"the build requires {missing[1]}, which is in no reachable package index; "
            "build a wheel on another machine and install the wheel"
        )
    lines = [line.strip(" │|") for line in output[1].splitlines()]
    return "the build failed: " + next((line for line in reversed(lines) if line), "without output")
