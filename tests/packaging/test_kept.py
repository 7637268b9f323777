"""Compiled libraries are taken again where all that they were made of is the same, and nowhere else."""

import os
import runpy
import shutil
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
KEPT = runpy.run_path(str(CHECKOUT / "packaging" / "native" / "kept.py"))
RULE = "packaging/native/requirements.txt"
MODULE = "kafkad/core/part.py"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """As much of a checkout as counts."""
    checkout = tmp_path / "checkout"
    (checkout / "kafkad/core").mkdir(parents=True)
    (checkout / MODULE).write_text("A = 1\n")
    shutil.copytree(CHECKOUT / "packaging/native", checkout / "packaging/native")
    for name in ("setup.py", "setup.cfg"):
        shutil.copy(CHECKOUT / name, checkout / name)
    return checkout


@pytest.fixture
def libraries(tmp_path: Path) -> dict[str, Path]:
    made = {}
    for name in ("kafkad.core.part", "kafkad.core__mypyc"):
        made[name] = tmp_path / f"{name}.cpython.so"
        made[name].write_text(f"made of {name}")
    return made


def digest_of(checkout: Path) -> str:
    digest: str = KEPT["digest_of"](checkout)
    return digest


def test_the_same_content_elsewhere_and_at_another_time_is_the_same(source: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(source, copy)
    os.utime(copy / MODULE, (1, 1))
    assert digest_of(copy) == digest_of(source)


@pytest.mark.parametrize("name", [MODULE, RULE, "packaging/native/module/Python.h", "setup.py"])
def test_one_other_character_is_found_though_time_and_size_are_the_same(source: Path, name: str) -> None:
    before, state = digest_of(source), (source / name).stat()
    text = (source / name).read_text()
    (source / name).write_text(text.replace("1", "2", 1) if "1" in text else text.replace("a", "b", 1))
    os.utime(source / name, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert digest_of(source) != before


@pytest.mark.parametrize(
    ("part", "counts"), [("native", True), ("mypy", True), ("options", False), ("tool:pytest", False)]
)
def test_of_the_configuration_counts_what_the_compilers_are_told(source: Path, part: str, counts: bool) -> None:
    before = digest_of(source)
    rules = (source / "setup.cfg").read_text()
    (source / "setup.cfg").write_text(rules.replace(f"[{part}]\n", f"[{part}]\nanother = 1\n"))
    assert (digest_of(source) != before) == counts


def test_a_module_more_and_other_flags_count(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {digest_of(source)}
    (source / "kafkad/core/more.py").write_text("")
    found.add(digest_of(source))
    monkeypatch.setenv("CFLAGS", "-O3")
    found.add(digest_of(source))
    assert len(found) == 3


def test_versions_are_those_of_what_is_required_and_of_what_that_requires() -> None:
    found = KEPT["versions_of"](["kio == 0.6.5", "no-such-package >= 1"])
    assert found["no-such-package"] is None
    assert found["kio"] and found["crc32c"] and found["typing-extensions"]


def test_what_was_kept_is_found(tmp_path: Path, libraries: dict[str, Path]) -> None:
    KEPT["keep"](tmp_path / "kept", "of this", libraries)
    found = KEPT["find"](tmp_path / "kept", "of this")
    assert {name: path.read_text() for name, path in found.items()} == {
        name: path.read_text() for name, path in libraries.items()
    }


def test_libraries_of_something_else_are_not_taken(tmp_path: Path, libraries: dict[str, Path]) -> None:
    assert KEPT["find"](tmp_path / "nothing", "of this") == {}
    KEPT["keep"](tmp_path / "kept", "of this", libraries)
    assert KEPT["find"](tmp_path / "kept", "of that") == {}


def test_a_library_that_is_changed_or_gone_spoils_them_all(tmp_path: Path, libraries: dict[str, Path]) -> None:
    kept = tmp_path / "kept"
    KEPT["keep"](kept, "of this", libraries)
    library = kept / "kafkad.core.part.so"
    library.write_text("something else")
    assert KEPT["find"](kept, "of this") == {}
    library.unlink()
    assert KEPT["find"](kept, "of this") == {}


def test_what_was_not_kept_to_the_end_is_not_taken(tmp_path: Path, libraries: dict[str, Path]) -> None:
    kept = tmp_path / "kept"
    KEPT["keep"](kept, "of this", libraries)
    with pytest.raises(FileNotFoundError):
        KEPT["keep"](kept, "of this", libraries | {"kafkad.core.gone": tmp_path / "gone.so"})
    assert KEPT["find"](kept, "of this") == {}
