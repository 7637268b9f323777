"""The container file: built for real, from a Debian made here and the package, and what it builds is run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkad import __version__
from tests.package.container import Container, Images
from tests.package.machine import call

KAFKAD = 999
"""The user's number, the same in every image."""


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory, base: Path, debs: dict[str, Path]) -> Iterator[Images]:
    """The image `kafkad` as the first lines of the file say to build it, beside the one that it begins with."""
    folder = tmp_path_factory.mktemp("images")
    images = Images(folder)
    images.add_base(base)
    context = folder / "context"
    context.mkdir()
    (context / debs["current"].name).write_bytes(debs["current"].read_bytes())
    images.build("kafkad", context)
    yield images
    images.close()


@pytest.fixture(scope="module")
def container(images: Images, tmp_path_factory: pytest.TempPathFactory) -> Container:
    """Not running yet."""
    return Container(images, "kafkad", tmp_path_factory.mktemp("container") / "log")


def test_image_says_how_it_is_run(images: Images) -> None:
    configuration = images.configuration("kafkad")
    assert configuration["User"] == "kafkad"
    assert configuration["Entrypoint"][:2] == ["/usr/bin/kafkad", "start"] and "Cmd" not in configuration
    assert list(configuration["ExposedPorts"]) == ["9092/tcp"]
    assert list(configuration["Volumes"]) == ["/var/lib/kafkad"]
    # An engine's own is SIGTERM, which is what the broker wants.
    assert "StopSignal" not in configuration


def test_image_holds_the_package_and_nothing_of_its_building(container: Container) -> None:
    root = container.root
    # tox may have said that nothing compiled is to run.
    version = call(["env", "--unset=KAFKAD_INTERPRETED", "chroot", str(root), "kafkad", "--version"])
    assert version == f"kafkad, version {__version__} (compiled)\n"
    for folder in ("var/lib/kafkad", "run/kafkad"):
        assert ((root / folder).stat().st_uid, (root / folder).stat().st_gid) == (KAFKAD, KAFKAD)
    for left in ("tmp", "var/lib/apt/lists", "var/cache/apt"):
        assert list((root / left).iterdir()) == []
    assert not (root / "lib/systemd/systemd").exists()


def test_container_serves_as_its_user_and_stops_in_order(container: Container) -> None:
    with container:
        kcat = ("kcat", "-b", "127.0.0.1:9092", "-t", "demo")
        container.beside(*kcat, "-P", say="hello\n")
        assert container.beside(*kcat, "-C", "-e", "-q") == "hello\n"
        assert Path(f"/proc/{container.supervisor().pid}").stat().st_uid == KAFKAD
        assert container.stop() == 0
        assert "SIGTERM: stopping the broker" in container.said()
