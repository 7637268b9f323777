"""Packages are built, and the tree below all machines is made, once for a test run; so is the machine of most tests."""

import os
import sys
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.package.machine import BUILD_S, CHECKOUT, Machine, Overlay, call, run_in_tree
from tests.package.shared_machine import SharedMachine

OLDER = "0.0.9"
QUICK = ("DPKG_DEB_COMPRESSOR_LEVEL=0",)
"""Of the packages that are built here: they need not be small."""
_BOOTABLE = "systemd systemd-sysv dbus iproute2 procps"
_INSTALL = "apt-get -qq install -y --no-install-recommends"
_UNSYNCED = "--dpkgopt=force-unsafe-io"
"""Of mmdebstrap: nobody cuts the power of these trees; packages are installed there in less than half the time."""


@pytest.fixture(scope="session")
def works(
    lab: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Path]]]:
    """What takes long is begun at once, and goes on beside tests that do not need it yet."""
    folder = tmp_path_factory.mktemp("works")
    wanted = {name for item in request.session.items for name in getattr(item, "fixturenames", ())}
    with ThreadPoolExecutor(max_workers=2) as executor:
        begun = {
            "current": executor.submit(build, folder / "current"),
            "base": executor.submit(make_base, lab),
            "older": executor.submit(build, folder / "older", version=OLDER),
        }
        if "built_elsewhere" in wanted:
            begun["elsewhere"] = executor.submit(build_elsewhere, folder / "elsewhere")
        if "complaints" in wanted:
            begun["complaints"] = executor.submit(run_lintian, folder / "complaints", after=begun["current"])
        if "dist" in wanted:
            begun["dist"] = executor.submit(build_dist, folder / "dist", after=begun["current"])
        yield begun
        executor.shutdown(cancel_futures=True)


@pytest.fixture(scope="session")
def debs(works: dict[str, Future[Path]]) -> dict[str, Path]:
    """The package of this checkout as `make deb` builds it, and the same under an older version."""
    return {name: works[name].result() for name in ("current", "older")}


@pytest.fixture(scope="session")
def base(works: dict[str, Future[Path]]) -> Path:
    """An archive of the smallest Debian 12 there is: of machines and containers."""
    return works["base"].result()


@pytest.fixture(scope="session")
def built_elsewhere(works: dict[str, Future[Path]]) -> Path:
    """The package as somebody else builds it."""
    return works["elsewhere"].result()


@pytest.fixture(scope="session")
def complaints(works: dict[str, Future[Path]]) -> Path:
    """What lintian has to say; the work itself fails where that is an error or a warning."""
    return works["complaints"].result()


@pytest.fixture(scope="session")
def dist(works: dict[str, Future[Path]]) -> Path:
    """Wheel and source distribution as `make dist` builds them, from a clean copy of what is in the repository."""
    return works["dist"].result()


def build(folder: Path, *, version: str | None = None) -> Path:
    folder.mkdir(parents=True)
    # The older one is not compiled, so that an upgrade leads from one to the other and back.
    environment = [f"KAFKAD_DEB_VERSION={version}", "KAFKAD_PURE=1"] if version else []
    call(["env", *QUICK, *environment, str(CHECKOUT / "packaging/debian/build.sh"), str(folder)], within=BUILD_S)
    (package,) = folder.glob("*.deb")
    return package


def build_elsewhere(folder: Path) -> Path:
    """From a clone in another folder, by somebody with another umask, and compiled there: nothing is taken."""
    where = folder / "a" / "deeper" / "folder"
    where.mkdir(parents=True)
    clone = copy_repository(where / "clone", umask="077")
    settings = " ".join(["KAFKAD_KEPT=", f'KAFKAD_DEB_WHEELS="{CHECKOUT}/build/wheels"', *QUICK])
    call(["sh", "-euc", f'umask 077; {settings} "{clone}/packaging/debian/build.sh" "{where}"'], within=BUILD_S)
    (package,) = where.glob("*.deb")
    return package


def run_lintian(said: Path, *, after: Future[Path]) -> Path:
    call(["lintian", "--allow-root", "--fail-on", "error,warning", str(after.result())], log=said, within=BUILD_S)
    return said


def build_dist(folder: Path, *, after: Future[Path]) -> Path:
    clone = copy_repository(folder / "clone")
    after.result()
    # The wheel is built from the source distribution, which shows that that is complete; what was compiled for the
    # package is not compiled again.
    build = [sys.executable, "-m", "build", "--outdir", str(folder / "dist"), str(clone)]
    call(["env", f"KAFKAD_KEPT={CHECKOUT}/build/native/kept", *build], within=BUILD_S)
    return folder / "dist"


def copy_repository(clone: Path, *, umask: str = "022") -> Path:
    clone.mkdir(parents=True)
    files = f'git -C "{CHECKOUT}" ls-files -z | tar -C "{CHECKOUT}" --null -T - -c'
    call(["bash", "-euo", "pipefail", "-c", f'umask {umask}; {files} | tar -C "{clone}" --no-same-permissions -x'])
    return clone


def make_base(lab: Path) -> Path:
    archive = lab / "base.tar"
    if not archive.exists():
        sources, made = lab / "sources", lab / "made.tar"
        sources.write_text(debian_mirror())
        how = ["--quiet", "--variant=minbase", "--mode=root", *(f"--aptopt={option}" for option in apt_options())]
        how += [_UNSYNCED, "--dpkgopt=path-exclude=/usr/share/locale/*"]
        call(["mmdebstrap", *how, "bookworm", str(made), str(sources)], within=BUILD_S)
        made.rename(archive)
    return archive


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the trees below all machines are made.

    KAFKAD_PACKAGE_LAB names a folder that keeps them for further runs, for whoever works on these tests.
    """
    kept = os.environ.get("KAFKAD_PACKAGE_LAB")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("lab")
    yield folder
    if not kept:
        call(["rm", "-rf", "--one-file-system", str(folder)])


@pytest.fixture(scope="session")
def fresh_tree(lab: Path, base: Path, debs: dict[str, Path]) -> Path:
    """A Debian 12 without Python. What apt will want to fetch is in its cache: its machines have no way to a mirror."""
    tree, unfinished = lab / "tree", lab / "unfinished"
    if not tree.exists():
        unfinished.mkdir()
        call(["tar", "-C", str(unfinished), "-xf", str(base)])
        copy_network_names(unfinished)
        (unfinished / "srv/kafkad.deb").write_bytes(debs["current"].read_bytes())
        run_in_tree(
            unfinished,
            f"apt-get -qq update; {_INSTALL} {_BOOTABLE}; {_INSTALL} --download-only /srv/kafkad.deb",
        )
        (unfinished / "srv/kafkad.deb").unlink()
        (unfinished / "etc/machine-id").write_text("")
        unfinished.rename(tree)
    return tree


def debian_mirror() -> str:
    """Where this machine's own apt gets Debian 12 from."""
    fields = "deb $(REPO_URI) $(RELEASE) $(COMPONENT)"
    asked = ["apt-get", "indextargets", "--format", fields, "Created-By: Packages", "Origin: Debian"]
    if not call(asked):
        call(["apt-get", "-qq", "update"], within=BUILD_S)
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


@contextmanager
def installed(lower: Path, deb: Path, folder: Path) -> Iterator[Path]:
    """The package on that tree, never started: machines that are booted on it start it."""
    with Overlay(lower, folder / "layer") as overlay:
        (overlay.root / "srv/kafkad.deb").write_bytes(deb.read_bytes())
        run_in_tree(overlay.root, f"{_INSTALL} /srv/kafkad.deb; rm /srv/kafkad.deb")
        yield overlay.root


@pytest.fixture(scope="session")
def installed_tree(fresh_tree: Path, debs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with installed(fresh_tree, debs["current"], tmp_path_factory.mktemp("installed")) as tree:
        yield tree


@pytest.fixture(scope="session")
def older_tree(fresh_tree: Path, debs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With both packages at hand."""
    with installed(fresh_tree, debs["older"], tmp_path_factory.mktemp("older")) as tree:
        for name, deb in debs.items():
            (tree / f"srv/{name}.deb").write_bytes(deb.read_bytes())
        yield tree


Boot = Callable[[Path], Machine]


@pytest.fixture
def boot(tmp_path: Path) -> Iterator[Boot]:
    """Boots an overlay on a tree, for this test alone."""
    with ExitStack() as stack:

        def booted(tree: Path) -> Machine:
            overlay = stack.enter_context(Overlay(tree, tmp_path / f"machine-{os.urandom(3).hex()}"))
            return stack.enter_context(Machine(overlay.root, tmp_path / "console.log"))

        yield booted


@pytest.fixture(scope="session")
def shared_machine(installed_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedMachine]:
    shared = SharedMachine(installed_tree, tmp_path_factory)
    yield shared
    shared.discard()


@pytest.fixture
def machine(shared_machine: SharedMachine, request: pytest.FixtureRequest) -> Iterator[Machine]:
    """One whose broker has come up, and which is as it was after its boot."""
    yield shared_machine.as_booted()
    if request.node.stash.get(_HAS_FAILED, False):
        shared_machine.discard()


_HAS_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[_HAS_FAILED] = True
    return report
