"""A cache of compiled libraries: with equal inputs neither mypyc nor the C compiler runs.

Inputs and libraries are compared by content, not by time, so a checkout, a wheel and the Debian package share the
cache. Used by setup.py.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from configparser import ConfigParser
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

RECORD = "kept.json"
_FLAGS = ("CFLAGS", "CPPFLAGS", "LDFLAGS", "LDSHARED")


def digest_of(checkout: Path) -> str:
    """A digest of the inputs of the libraries: sources, rules, compilers and their flags, packages with types."""
    setup = ConfigParser()
    setup.read(checkout / "setup.cfg")
    native = checkout / "packaging" / "native"
    required = (native / "requirements.txt").read_text().split()
    read = [*(checkout / "kafkad").rglob("*.py"), *native.rglob("*.txt"), *native.rglob("*.h"), checkout / "setup.py"]
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()
    made_by = [
        sys.version,
        sysconfig.get_config_var("EXT_SUFFIX"),
        *(sysconfig.get_config_var(name) for name in ("CC", *_FLAGS)),
        *(os.environ.get(name) for name in _FLAGS),
        subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=True).stdout,
        {part: dict(setup[part]) for part in setup if part.startswith(("native", "mypy"))},
        versions_of([*required, *setup["options"]["install_requires"].strip().splitlines()]),
        {path.relative_to(checkout).as_posix(): _sum_of(path) for path in sorted(read)},
    ]
    return hashlib.sha256(json.dumps(made_by).encode()).hexdigest()


def versions_of(requirements: Iterable[str]) -> dict[str, str | None]:
    """The installed versions of these packages and of their unconditional requirements."""
    found: dict[str, str | None] = {}
    pending = list(requirements)
    for requirement in pending:  # grows during the iteration
        named = re.match(r"[\w.-]+", requirement)
        assert named is not None, f"no name of a package: {requirement}"
        name = re.sub(r"[-_.]+", "-", named[0]).lower()
        if name in found:
            continue
        try:
            package = distribution(name)
        except PackageNotFoundError:
            found[name] = None
            continue
        found[name] = package.version
        # Requirements of extras and of other Pythons have a marker.
        pending += [each for each in package.requires or () if ";" not in each]
    return dict(sorted(found.items()))


def find(folder: Path, digest: str) -> dict[str, Path]:
    """The library of each extension; empty if the digest differs or a library was changed."""
    try:
        record = json.loads((folder / RECORD).read_text())
    except FileNotFoundError:
        return {}
    if record["of"] != digest:
        return {}
    libraries = {name: folder / f"{name}.so" for name in record["libraries"]}
    if all(path.exists() and _sum_of(path) == record["libraries"][name] for name, path in libraries.items()):
        return libraries
    return {}


def keep(folder: Path, digest: str, libraries: dict[str, Path]) -> None:
    """Replace the content of the cache."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, library in libraries.items():
        shutil.copyfile(library, folder / f"{name}.so")
    sums = {name: _sum_of(folder / f"{name}.so") for name in libraries}
    # Written last: without the record the cache is empty.
    (folder / RECORD).write_text(json.dumps({"of": digest, "libraries": sums}))


def _sum_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
