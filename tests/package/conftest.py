"""Packages are built, and the tree below all machines is made, once for a test run."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.package.machine import CHECKOUT, Machine, Overlay, call, run_in_tree

OLDER = "0.0.9"
_INCLUDE = "systemd,systemd-sysv,dbus,iproute2,procps"
UNSYNCED = "--dpkgopt=force-unsafe-io"
"""Of mmdebstrap: nobody cuts the power of these trees; packages are installed there in less than half the time."""


@pytest.fixture(scope="session")
def debs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The package of this checkout as `make deb` builds it, and the same under an older version."""
    folder = tmp_path_factory.mktemp("debs")
    return {"current": build(folder / "current"), "older": build(folder / "older", version=OLDER)}


def build(folder: Path, *, version: str | None = None) -> Path:
    folder.mkdir()
    # The older one is not compiled, so that an upgrade leads from one to the other and back.
    environment = [f"KAFKAD_DEB_VERSION={version}", "KAFKAD_PURE=1"] if version else []
    call(["env", *environment, str(CHECKOUT / "packaging/debian/build.sh"), str(folder)], within=1100)
    (package,) = folder.glob("*.deb")
    return package


@pytest.fixture(scope="session")
def fresh_tree(tmp_path_factory: pytest.TempPathFactory, debs: dict[str, Path]) -> Iterator[Path]:
    """A Debian 12 without Python. What apt will want to fetch is in its cache: its machines have no way to a mirror.

    KAFKAD_PACKAGE_LAB names a folder that keeps it for further runs, for whoever works on these tests.
    """
    kept = os.environ.get("KAFKAD_PACKAGE_LAB")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("fresh")
    tree = folder / "tree"
    if not tree.exists():
        make_fresh_tree(folder, tree, debs["current"])
    yield tree
    if not kept:
        call(["rm", "-rf", "--one-file-system", str(tree)])


def make_fresh_tree(folder: Path, tree: Path, deb: Path) -> None:
    sources = folder / "sources"
    sources.write_text(debian_mirror())
    call(
        ["mmdebstrap", "--quiet", "--format=directory", "--variant=apt", "--mode=root", f"--include={_INCLUDE}"]
        + [f"--aptopt={option}" for option in apt_options()]
        + [UNSYNCED, "--dpkgopt=path-exclude=/usr/share/locale/*", "bookworm", str(tree), str(sources)],
        within=600,
    )
    copy_network_names(tree)
    (tree / "etc/machine-id").write_text("")
    (tree / "srv/kafkad.deb").write_bytes(deb.read_bytes())
    fetch = "apt-get -qq update; apt-get -qq install -y --no-install-recommends --download-only /srv/kafkad.deb"
    run_in_tree(tree, fetch)
    (tree / "srv/kafkad.deb").unlink()


def debian_mirror() -> str:
    """Where this machine's own apt gets Debian 12 from."""
    fields = "deb $(REPO_URI) $(RELEASE) $(COMPONENT)"
    asked = ["apt-get", "indextargets", "--format", fields, "Created-By: Packages", "Origin: Debian"]
    if not call(asked):
        call(["apt-get", "-qq", "update"], within=300)
    return "".join(sorted({f"{line}\n" for line in call(asked).splitlines() if " bookworm" in line}))


def apt_options() -> list[str]:
    """How this machine's apt reaches its mirror, be it by a proxy or without dates."""
    wanted = ("Acquire::http", "Acquire::https", "Acquire::Check", "Acquire::Retries")
    dumped = call(["apt-config", "dump"]).splitlines()
    return [line.rstrip(";") for line in dumped if line.startswith(wanted) and not line.endswith('"";')]


def copy_network_names(tree: Path) -> None:
    for name in ("etc/resolv.conf", "etc/hosts"):
        (tree / name).unlink(missing_ok=True)
        (tree / name).write_bytes(Path("/", name).read_bytes())


@pytest.fixture(scope="session")
def installed_tree(
    fresh_tree: Path, debs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The package on that Debian, installed but never started."""
    with Overlay(fresh_tree, tmp_path_factory.mktemp("installed") / "layer") as overlay:
        (overlay.root / "srv/kafkad.deb").write_bytes(debs["current"].read_bytes())
        run_in_tree(overlay.root, "apt-get -qq install -y --no-install-recommends /srv/kafkad.deb")
        yield overlay.root


Boot = Callable[..., Machine]


@pytest.fixture
def boot(tmp_path: Path) -> Iterator[Boot]:
    """Boots an overlay on a tree; powered off and removed after the test."""
    with ExitStack() as stack:

        def booted(tree: Path, *options: str) -> Machine:
            overlay = stack.enter_context(Overlay(tree, tmp_path / f"machine-{os.urandom(3).hex()}"))
            return stack.enter_context(Machine(overlay.root, tmp_path / "console.log", *options))

        yield booted


@pytest.fixture
def machine(boot: Boot, installed_tree: Path) -> Machine:
    """A machine whose broker has come up at boot."""
    booted = boot(installed_tree)
    booted.run("systemctl start kafkad")
    return booted
