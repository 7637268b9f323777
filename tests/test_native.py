"""What is compiled and what is not, and which of the two runs."""

import ast
import builtins
import json
import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from configparser import ConfigParser
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from bench.brokers.processes import WITHIN_S
from kafkad import __version__, native

CHECKOUT = Path(__file__).parents[1]
_parser = ConfigParser()
_parser.read(CHECKOUT / "setup.cfg")
FOLDERS = _parser["native"]["compiled"].split()
INTERPRETED = _parser["native"]["interpreted"].split()


def file_of(module: str) -> Path:
    return CHECKOUT.joinpath(*module.split(".")).with_suffix(".py")


def imported_from(path: Path) -> Iterator[tuple[str, set[str]]]:
    """Each module of the core, and the names that are taken from it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kafkad.core"):
            yield str(node.module), {alias.name for alias in node.names}


def compiled_modules() -> set[str]:
    groups = runpy.run_path(str(CHECKOUT / "setup.py"))["modules_of_groups"]()
    return {name.removesuffix(".py").replace("/", ".") for names in groups.values() for name in names}


def test_rule_names_what_is_there() -> None:
    assert [folder for folder in FOLDERS if not file_of(folder).with_suffix("").is_dir()] == []
    assert [module for module in INTERPRETED if not file_of(module).is_file()] == []


def test_modules_are_compiled_unless_the_rule_excepts_them() -> None:
    below = {
        ".".join(path.relative_to(CHECKOUT).with_suffix("").parts)
        for folder in FOLDERS
        for path in file_of(folder).with_suffix("").rglob("*.py")
        if path.name != "__init__.py"
    }
    assert compiled_modules() == below - set(INTERPRETED)


def test_messages_of_msgspec_are_interpreted() -> None:
    """A class of mypyc can't be a Struct: its fields are no attributes of the kind that msgspec makes."""
    structs = {
        module
        for module in compiled_modules()
        for node in ast.walk(ast.parse(file_of(module).read_text()))
        if isinstance(node, ast.ClassDef)
        if {"Struct", "msgspec.Struct"} & {ast.unparse(base) for base in node.bases}
    }
    assert structs == set()


def test_attributes_have_names_that_c_allows() -> None:
    """mypyc puts an underscore before the name, and compilers have words that begin with two."""
    words = {"thread", "asm", "attribute", "complex", "const", "extension", "func", "imag", "inline", "int128", "label"}
    words |= {"real", "restrict", "signed", "typeof", "volatile"}
    taken = {
        f"{module}: {node.attr}"
        for module in compiled_modules()
        for node in ast.walk(ast.parse(file_of(module).read_text()))
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and node.attr[1:] in words
    }
    assert taken == set()


def test_objects_are_made_by_calling_their_class() -> None:
    """`cls.__new__(cls)` of a compiled class wants the arguments of its constructor."""
    made = {
        f"{module}:{node.lineno}"
        for module in compiled_modules()
        for node in ast.walk(ast.parse(file_of(module).read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "__new__" and ast.unparse(node.value) != "tuple"
    }
    assert made == set()


def test_classes_of_others_are_not_derived_in_compiled_modules() -> None:
    """A compiled class does not run the constructor of an interpreted base."""
    derived: set[tuple[str, str]] = set()
    for module in compiled_modules():
        tree = ast.parse(file_of(module).read_text())
        foreign = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and not str(node.module).startswith(("kafkad", "typing", "enum"))
            for alias in node.names
        } | {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        bases = {
            ast.unparse(base).split(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
            for base in node.bases
        }
        derived |= {(module, base) for base in bases & foreign}
    assert derived == set()


def test_builtin_classes_are_derived_only_where_the_compiler_can() -> None:
    """It refuses the whole build for any other, such as OSError."""
    possible = {"object", "BaseException", "Exception", "LookupError", "IndexError"}
    possible |= {"Warning", "UserWarning", "ValueError"}
    derived = {
        (module, node.name, ast.unparse(base))
        for module in compiled_modules()
        for node in ast.walk(ast.parse(file_of(module).read_text()))
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if isinstance(getattr(builtins, ast.unparse(base), None), type) and ast.unparse(base) not in possible
    }
    assert derived == set()


def test_no_dataclass_is_generic_in_compiled_modules() -> None:
    """The compiler can't make one: its module could not be imported."""
    generic = {
        (module, node.name)
        for module in compiled_modules()
        for node in ast.walk(ast.parse(file_of(module).read_text()))
        if isinstance(node, ast.ClassDef)
        if any(ast.unparse(base).startswith("Generic[") for base in node.bases)
        if any(ast.unparse(decorator).startswith("dataclass") for decorator in node.decorator_list)
    }
    assert generic == set()


def test_what_plugins_see_is_interpreted() -> None:
    """They subclass it, copy it and look into it as they like."""
    kafkad = CHECKOUT / "kafkad"
    seen = [*kafkad.glob("hookspecs.py"), *kafkad.glob("api.py"), *(kafkad / "plugins").glob("*.py")]
    seen += (CHECKOUT / "examples").rglob("*.py")
    modules = {module for path in seen for module, _ in imported_from(path)}
    assert modules & compiled_modules() == set()


def test_each_exception_of_a_function_has_a_name_of_its_own() -> None:
    """The compiler gives a name one type, that of its first `except`: another exception there is a TypeError."""
    shared: set[tuple[str, str, str]] = set()
    for module in compiled_modules():
        for function in ast.walk(ast.parse(file_of(module).read_text())):
            if not isinstance(function, ast.FunctionDef):
                continue
            caught: dict[str, set[str]] = {}
            for handler in ast.walk(function):
                if isinstance(handler, ast.ExceptHandler) and handler.name and handler.type:
                    caught.setdefault(handler.name, set()).add(ast.unparse(handler.type))
            shared |= {(module, function.name, name) for name, types in caught.items() if len(types) > 1}
    assert shared == set()


def test_no_value_is_a_number_or_a_kind_of_number() -> None:
    """The compiler takes `int | ErrorCode` for int and makes it one: which of the two it was is lost."""
    kinds = {"bool"} | {
        node.name
        for path in (CHECKOUT / "kafkad").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        if {ast.unparse(base).split(".")[-1] for base in node.bases} & {"IntEnum", "IntFlag", "int"}
    }
    either = {
        (module, ast.unparse(node))
        for module in compiled_modules()
        for node in ast.walk(ast.parse(file_of(module).read_text()))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)
        if "int" in (parts := set(ast.unparse(node).split(" | "))) and parts & kinds
    }
    assert either == set()


def test_a_set_meets_the_keys_of_a_mapping_in_its_methods() -> None:
    """`frozenset(…) & mapping.keys()` is a set, which mypy believes to be frozen: compiled code raises TypeError."""
    found = [
        f"{module}:{node.lineno}"
        for module in sorted(compiled_modules())
        for node in ast.walk(ast.parse(file_of(module).read_text()))
        if isinstance(node, ast.BinOp | ast.AugAssign)
        and isinstance(right := node.right if isinstance(node, ast.BinOp) else node.value, ast.Call)
        and isinstance(right.func, ast.Attribute)
        and right.func.attr == "keys"
        and not _is_keys(node)
    ]
    assert found == []


def _is_keys(node: ast.BinOp | ast.AugAssign) -> bool:
    """keys() of two mappings make a set, and mypy knows that."""
    left = node.left if isinstance(node, ast.BinOp) else node.target
    return isinstance(left, ast.Call) and isinstance(left.func, ast.Attribute) and left.func.attr == "keys"


def test_bounds_of_slices_have_no_effects() -> None:
    """The compiler works out the bounds twice when what is sliced is no list, tuple or string."""
    pure = {"len", "max", "min", "rindex", "bisect_left", "bisect_right", "segment_number"}
    called = {
        (module, ast.unparse(call))
        for module in compiled_modules()
        for node in ast.walk(ast.parse(file_of(module).read_text()))
        if isinstance(node, ast.Slice)
        for call in ast.walk(node)
        if isinstance(call, ast.Call | ast.NamedExpr | ast.Yield)
        if ast.unparse(getattr(call, "func", call)).split(".")[-1] not in pure
    }
    assert called == set()


def test_nobody_asks_for_the_cause_of_an_exception() -> None:
    """The compiler leaves out `from` in `raise … from …`."""
    asking = {
        module
        for module in compiled_modules()
        for node in ast.walk(ast.parse(file_of(module).read_text()))
        if isinstance(node, ast.Attribute) and node.attr in {"__cause__", "__context__", "__suppress_context__"}
    }
    assert asking == set()


def test_checks_of_input_are_kept() -> None:
    """An assertion of the source is one in the compiled code too: nobody asks mypyc to leave them out."""
    assert "strip_asserts" not in (CHECKOUT / "setup.py").read_text()


def test_tests_run_what_their_environment_says() -> None:
    assert native.mode() == os.environ.get("KAFKAD_TESTED", native.mode())


def test_changed_or_removed_module_is_noticed(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("ONE = 1\n")
    record = {"module.py": native.state_of(module)}
    assert not native.is_stale(record, tmp_path)
    os.utime(module, ns=(1, 1))
    assert native.is_stale(record, tmp_path)
    record = {"module.py": native.state_of(module)}
    module.unlink()
    assert native.is_stale(record, tmp_path)


def test_what_is_compiled_already_is_not_compiled_again(tmp_path: Path) -> None:
    setup = runpy.run_path(str(CHECKOUT / "setup.py"))
    is_compiled = setup["is_compiled"]
    record = tmp_path / "kafkad" / "compiled.json"
    is_compiled.__globals__.update(HERE=tmp_path, RECORD=record)
    compiled, interpreted = tmp_path / "kafkad" / "compiled.py", tmp_path / "kafkad" / "interpreted.py"
    rules = [tmp_path / "packaging" / "native" / "compile.sh", tmp_path / "setup.py", tmp_path / "setup.cfg"]
    for path in (compiled, interpreted, *rules):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        os.utime(path, ns=(1, 1))
    states = {"kafkad/compiled.py": native.state_of(compiled)}
    assert not is_compiled(states)
    record.write_text(json.dumps(states))
    assert not is_compiled(states)
    compiled.with_suffix(sysconfig.get_config_var("EXT_SUFFIX")).write_text("")
    assert is_compiled(states)
    for path in (interpreted, *rules):
        later = record.stat().st_mtime_ns
        os.utime(path, ns=(later, later))
        assert not is_compiled(states), path
        os.utime(path, ns=(1, 1))
    os.utime(compiled, ns=(2, 2))
    assert not is_compiled({"kafkad/compiled.py": native.state_of(compiled)})


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """One with a library beside a module, and the record of how that was compiled."""
    sources = shutil.ignore_patterns("*.so", "__pycache__", "compiled.json")
    shutil.copytree(CHECKOUT / "kafkad", tmp_path / "kafkad", ignore=sources)
    module = tmp_path / "kafkad" / "core" / "log" / "partition_log.py"
    module.with_suffix(EXTENSION_SUFFIXES[0]).write_bytes(b"no library at all")
    record = {"kafkad/core/log/partition_log.py": native.state_of(module)}
    (tmp_path / "kafkad" / "compiled.json").write_text(json.dumps(record))
    return tmp_path


def run(checkout: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKAD_", "PYTHON"))}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=checkout,
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )


def test_version_says_which_of_the_two_runs(checkout: Path) -> None:
    assert run(checkout, "-m", "kafkad", "--version").stdout == f"kafkad, version {__version__} (compiled)\n"
    told = run(checkout, "-m", "kafkad", "--version", KAFKAD_INTERPRETED="all")
    assert told.stdout == f"kafkad, version {__version__} (interpreted)\n"


def test_library_of_an_older_module_is_never_loaded(checkout: Path) -> None:
    load = "import kafkad.core.log.partition_log"
    assert "ImportError" in run(checkout, "-c", load).stderr
    (checkout / "kafkad" / "core" / "log" / "partition_log.py").touch()
    loaded = run(checkout, "-c", load)
    assert (loaded.returncode, loaded.stderr) == (
        0,
        "kafkad: changed since `make native`, so nothing compiled is used\n",
    )
    assert "(interpreted)" in run(checkout, "-m", "kafkad", "--version").stdout


def test_packages_that_are_named_run_interpreted(checkout: Path) -> None:
    load = "import kafkad.core.log.partition_log"
    assert run(checkout, "-c", load, KAFKAD_INTERPRETED="kafkad.wire kafkad.core").returncode == 0
    assert run(checkout, "-c", load, KAFKAD_INTERPRETED="kafkad.wire").returncode == 1
