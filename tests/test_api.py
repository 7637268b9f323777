"""`kafkad.api` has everything that a plugin's author needs, and nobody needs more."""

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import kafkad
from bench.brokers.processes import WITHIN_S
from kafkad import api, hookspecs

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
PAGES = [ROOT / "README.md", ROOT / "docs" / "plugins.md", *sorted((ROOT / "examples").rglob("*.md"))]


def annotation_names(node: ast.AST) -> Iterator[str]:
    """The names in every annotation below `node`; an alias or a union is nothing but such names."""
    for each in ast.walk(node):
        annotations = []
        if isinstance(each, ast.arg | ast.AnnAssign):
            annotations.append(each.annotation)
        elif isinstance(each, ast.FunctionDef):
            annotations.append(each.returns)
        elif isinstance(each, ast.Assign) and each is node:
            annotations.append(each.value)
        for annotation in filter(None, annotations):
            yield from (name.id for name in ast.walk(annotation) if isinstance(name, ast.Name))


def definition(module: ModuleType, name: str) -> tuple[ModuleType, ast.AST] | None:
    """Where kafkad defines what `module` calls `name`; None for Python's own and for parameters of types."""
    tree = ast.parse(inspect.getsource(module))
    for node in tree.body:
        match node:
            case ast.ClassDef(name=defined) | ast.FunctionDef(name=defined) if defined == name:
                return module, node
            case ast.Assign(targets=[ast.Name(id=defined)]) if defined == name and defined[0].isupper():
                return module, node
            case ast.ImportFrom(module=source, names=aliases) if source and source.startswith("kafkad"):
                if name in {alias.name for alias in aliases}:
                    return definition(sys.modules[source], name)
    return None


def needed(module: ModuleType, node: ast.AST, found: set[str]) -> set[str]:
    """`found` with the names of kafkad in the contract `node`, and in theirs."""
    for name in annotation_names(node):
        place = definition(module, name)
        if place is not None and name not in found:
            found.add(name)
            needed(*place, found)
    return found


def test_every_name_of_a_hook_or_contract_is_there() -> None:
    hooks = [node for node in ast.parse(inspect.getsource(hookspecs)).body if isinstance(node, ast.FunctionDef)]
    names: set[str] = set()
    for hook in hooks:
        needed(hookspecs, hook, names)
    assert {"CleanupPolicy", "CleanupEffect", "RollActive", "Labels", "Assignment", "BrokerInfo"} <= names
    assert names - set(api.__all__) == set()


def test_whatever_it_imports_is_exported() -> None:
    imported = {name for name in vars(api) if name[0].isalpha()}
    assert imported == set(api.__all__)
    assert len(set(api.__all__)) == len(api.__all__)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_import_nothing_else_of_kafkad(example: Path) -> None:
    assert kafkad_imports(example.read_text()) <= {"kafkad.api"}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_pages_import_nothing_else_of_kafkad(page: Path) -> None:
    for code in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        assert kafkad_imports(code) <= {"kafkad.api", "kafkad.testing"}, page


def kafkad_imports(code: str) -> set[str]:
    nodes = list(ast.walk(ast.parse(code)))
    named = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    named |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return {name for name in named if name.partition(".")[0] == "kafkad"}


def test_kafkad_itself_has_hookimpl() -> None:
    assert kafkad.hookimpl is api.hookimpl
    with pytest.raises(AttributeError, match="no attribute 'hookspec'"):
        kafkad.hookspec  # noqa: B018


def test_who_does_not_ask_for_it_does_not_import_it() -> None:
    code = "import sys, kafkad; print([name for name in sys.modules if name.startswith(('kafkad.', 'pluggy'))])"
    needed = ["kafkad.native"]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=WITHIN_S)
    assert done.stdout.strip() == str(needed)
