"""The tree keeps its rules: who may import whom, what the core may touch, how long a function may be.

Each area of `kafkad/`, and of the packages beside it in `spark/`, has a row in ALLOWED; what a module may import beyond
its area's row stands in EXCEPTIONS with its reason. A new rule goes here first.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from kafkad import hookspecs
from kafkad.plugins import BUILT_IN

ROOT = Path(__file__).parents[1]
DECISIONS = ROOT / "docs" / "decisions"
PACKAGES = {"kafkad": ROOT, "kafkad_lakehouse": ROOT / "spark", "pyspark_kafkad": ROOT / "spark"}
"""The packages of the distribution, each with the folder that it is imported from."""
FUNCTION_LINES = 50
"""One screen. Files and folders have no limit: a file holds one idea, whole."""

PLUGINS = ("kafkad.plugin_loading", "kafkad.hookspecs")
SHARED_BY_PROCESSES = "kafkad.processes.runtime"
"""What is the same in every process; all else of one process is no other's business."""
CORE_KERNEL = tuple(
    f"kafkad.core.{name}"
    for name in ("types", "errors", "quoting", "partition_lines", "ports", "settings", "request_context")
)

LOG_RECORDS = tuple(f"kafkad.core.{name}" for name in ("groups.records", "transactions.records", "transactions.state"))
"""What coordinators keep in internal topics: plain values, whose bytes are made in the wire."""

ALLOWED = {
    # The sub-packages of the core know the kernel and themselves, not each other.
    "kafkad.core.log": CORE_KERNEL,
    "kafkad.core.waiting": CORE_KERNEL,
    "kafkad.core.columns": (*CORE_KERNEL, "kafkad.core.log"),
    "kafkad.core.cleaning": (*CORE_KERNEL, "kafkad.core.cleanup", "kafkad.core.columns", "kafkad.core.log"),
    "kafkad.core.sessions": CORE_KERNEL,
    "kafkad.core.quotas": CORE_KERNEL,
    "kafkad.core.coordinator": (*CORE_KERNEL, "kafkad.core.log", "kafkad.core.waiting"),
    "kafkad.core.groups": (*CORE_KERNEL, "kafkad.core.coordinator"),
    "kafkad.core.transactions": (*CORE_KERNEL, "kafkad.core.coordinator"),
    "kafkad.core.cluster": CORE_KERNEL,
    "kafkad.core.replication": (*CORE_KERNEL, "kafkad.core.log", "kafkad.core.quotas"),
    "kafkad.core.controller": (
        *(*CORE_KERNEL, "kafkad.core.coordination_store", "kafkad.core.election"),
        "kafkad.core.cluster",
    ),
    "kafkad.core": ("kafkad.core",),
    "kafkad.wire": (
        *("kafkad.core.types", "kafkad.core.errors", "kafkad.core.request_context", *LOG_RECORDS),
        *("kafkad.core.cluster", "kafkad.core.replication.following.requests"),
    ),
    "kafkad.handlers": ("kafkad.core", "kafkad.wire"),
    "kafkad.adapters": ("kafkad.core.ports", "kafkad.core.types", "kafkad.core.errors"),
    "kafkad.client": ("kafkad.core", "kafkad.wire", "kafkad.adapters"),
    "kafkad.processes": (
        *("kafkad.core", "kafkad.wire", "kafkad.handlers", "kafkad.adapters", "kafkad.config"),
        *(*PLUGINS, SHARED_BY_PROCESSES, "kafkad.standard_streams"),
    ),
    # Like anyone else's.
    "kafkad.plugins": ("kafkad.api",),
    "kafkad.api": ("kafkad.core", "kafkad.hookspecs"),
    "kafkad.hookspecs": ("kafkad.core",),
    "kafkad.plugin_discovery": ("kafkad.plugins",),
    "kafkad.plugin_permissions": ("kafkad.plugin_discovery",),
    "kafkad.plugin_registration": ("kafkad.hookspecs", "kafkad.plugin_discovery"),
    "kafkad.plugin_loading": (
        *("kafkad.core", "kafkad.hookspecs"),
        *("kafkad.plugin_discovery", "kafkad.plugin_permissions", "kafkad.plugin_registration"),
    ),
    "kafkad.config": ("kafkad.core",),
    # The outermost: they put the rest together, and nobody imports them but each other.
    "kafkad.banner": ("kafkad.config", "kafkad.native"),
    "kafkad.native": (),
    "kafkad.standard_streams": (),
    "kafkad.startup": (
        *("kafkad.config", "kafkad.processes.supervisor", "kafkad.banner", "kafkad.plugin_discovery"),
        *("kafkad.standard_streams", "kafkad.core.supervision.exit_codes", *PLUGINS),
    ),
    "kafkad.cli": ("kafkad",),
    "kafkad.pytest_plugin": ("kafkad.adapters",),
    "kafkad.testing": ("kafkad.api", "kafkad.core", "kafkad.pytest_plugin"),
    "kafkad": ("kafkad.cli", "kafkad.hookspecs", "kafkad.native"),
    # Topics as tables: no row above has it.
    "kafkad_lakehouse": (),
    "kafkad_lakehouse.export": (
        *(*CORE_KERNEL, "kafkad.core.columns", "kafkad.core.log", "kafkad.adapters.files"),
        "kafkad.client",
    ),
    "kafkad_lakehouse.cli": (
        *(*CORE_KERNEL, "kafkad.core.controller.topics.names"),
        *("kafkad.client", "kafkad.cli", "kafkad_lakehouse.export"),
    ),
    "kafkad_lakehouse.source": (
        *(*CORE_KERNEL, "kafkad.core.controller.topics.names"),
        *("kafkad.client", "kafkad_lakehouse.export"),
    ),
    "pyspark_kafkad": ("kafkad_lakehouse.source",),
}

EXCEPTIONS = {
    (
        "kafkad.core.log.segments.removal",
        "kafkad.core.cleanup",
    ): "a policy's view of a log is made where the log is known",
    (
        "kafkad.core.controller.startup.reconciliation",
        "kafkad.core.log.segments.layout",
    ): "the names of directories on disk",
    ("kafkad.core.controller.log_dir_moves", "kafkad.core.log.segments.layout"): "the names of directories on disk",
}
for _module, _target, _reason in (
    ("shared_memory.arena", "arena_space", "performs what the rule of free space says, on memory"),
    ("shared_memory.counters", "metrics.catalogue", "how many words a block needs is the catalogue's to say"),
    ("shared_memory.partition_table", "partition_slot", "stores the value that this module defines"),
    ("shared_memory.controller_handover", "partition_slot", "is kept in a slot of that table"),
    ("files.checkpoint_files", "log.recovery.checkpoints", "stores the format that this module defines"),
    ("files.log_directory", "log.recovery.checkpoints", "stores the format that this module defines"),
    ("files.log_directory", "log.segments.layout", "the names of files on disk"),
    ("files.moved_directory", "log.segments.layout", "the names of directories on disk"),
    ("files.segment_files", "log.segments.layout", "the names of files on disk"),
    ("stores.embedded_store", "coordination_store", "implements this port; it is too large for ports.py"),
    ("stores.sqlite_tree", "coordination_store", "implements this port"),
    ("stores.zookeeper_store", "coordination_store", "implements this port"),
    ("stores.zookeeper_responses", "coordination_store", "gives its values"),
    ("stores.zookeeper_reads", "coordination_store", "gives its values"),
    ("links.prometheus_http", "metrics.metric", "serves the snapshots of this port"),
):
    EXCEPTIONS[f"kafkad.adapters.{_module}", f"kafkad.core.{_target}"] = _reason

CORE_MAY_IMPORT = {
    *("abc", "array", "base64", "binascii", "bisect", "collections", "contextlib", "dataclasses", "enum"),
    *("functools", "heapq", "ipaddress", "itertools", "json", "math", "re", "struct", "typing", "typing_extensions"),
    *("uuid", "zlib"),
    *("crc32c", "cramjam", "lz4", "msgspec", "mypy_extensions", "numpy", "operator", "xxhash", "zstandard"),
}
"""Everything that neither waits nor asks the world: no clock, file, socket, thread, chance or log."""
BAD_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "tools"}

BROAD_EXCEPTS = {
    "kafkad.adapters.operating_system.helper_threads": "what the work raises is in its future, as with any",
    "kafkad_lakehouse.export.engines.processes": "what a task raises is the run's, as with any future",
    "kafkad.processes.runtime.child": "a process that met the impossible says so and ends",
    "kafkad.processes.network.connections.clients": "a bug that a request meets: the process only reads",
    "kafkad.processes.network.responses": "the same, where the request is answered later",
    "kafkad.processes.network.fetch_requests": "the same, of a Fetch",
    "kafkad.processes.network.produce_requests": "the same, of an answer to a Produce",
    "kafkad.processes.cleaner.compactor": "somebody else's filter failed: it costs that partition its cleaning only",
    "kafkad.processes.cleaner.policy_calls": "somebody else's policy failed: it costs that partition only",
}


def module_name(path: Path, folder: Path) -> str:
    name = ".".join(path.relative_to(folder).with_suffix("").parts)
    return name.removesuffix(".__init__")


@cache
def sources() -> dict[str, ast.Module]:
    return {
        module_name(path, folder): ast.parse(path.read_text())
        for package, folder in PACKAGES.items()
        for path in sorted((folder / package).rglob("*.py"))
    }


@cache
def imports() -> dict[str, frozenset[str]]:
    """What each module imports, anywhere in it; `from package import module` is an import of that module."""
    modules = sources()
    found: dict[str, set[str]] = defaultdict(set)
    for name, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found[name] |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0 and node.module, f"{name} has a relative import"
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                found[name] |= (inner & modules.keys()) | ({node.module} if inner - modules.keys() else set())
    return {name: frozenset(targets) for name, targets in found.items()}


def is_within(module: str, area: str) -> bool:
    return module == area or module.startswith(area + ".")


def area_of(module: str) -> str:
    return max((area for area in ALLOWED if is_within(module, area)), key=len)


def own_folder(module: str) -> str:
    """Within it everything may be imported: an area, or of `processes` one process."""
    parts = module.split(".")
    return ".".join(parts[:3]) if parts[1:2] == ["processes"] else area_of(module)


def inner_imports() -> Iterator[tuple[str, str]]:
    for module, targets in imports().items():
        for target in targets:
            if any(is_within(target, package) for package in PACKAGES):
                yield module, target


def is_allowed(module: str, target: str) -> bool:
    if target == "kafkad" or is_within(target, own_folder(module)):
        # `kafkad` itself holds nothing but the version, and the way to `hookimpl`.
        return True
    others = [area for area in ALLOWED[area_of(module)] if is_within(target, area)]
    if is_within(target, "kafkad.processes") and is_within(module, "kafkad.processes"):
        return is_within(target, SHARED_BY_PROCESSES)
    return bool(others)


def test_imports_go_in_the_directions_of_the_table() -> None:
    wrong = [pair for pair in inner_imports() if not is_allowed(*pair) and pair not in EXCEPTIONS]
    assert sorted(wrong) == []


def test_exceptions_are_needed() -> None:
    used = {pair for pair in inner_imports() if not is_allowed(*pair)}
    assert EXCEPTIONS.keys() - used == set()


@pytest.mark.parametrize(
    ("folder", "foreign"),
    [
        *((folder, {"tests", "bench"}) for folder in ("kafkad", "spark", "examples")),
        ("bench", {"tests"}),
    ],
)
def test_only_tests_import_tests_and_only_they_the_benchmark(folder: str, foreign: set[str]) -> None:
    found = {
        (str(path.relative_to(ROOT)), name)
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in _imported(node)
        if name.split(".")[0] in foreign
    }
    assert found == set()


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def test_nothing_in_kafkad_names_the_packages_beside_it() -> None:
    """Not in a string either: the command line finds their command by its entry point."""
    beside = PACKAGES.keys() - {"kafkad"}
    naming = [path for path in (ROOT / "kafkad").rglob("*.py") if any(name in path.read_text() for name in beside)]
    assert naming == []


def test_no_module_needs_itself() -> None:
    graph: dict[str, set[str]] = defaultdict(set)
    for module, target in inner_imports():
        graph[module].add(target)
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " → ".join((*path[path.index(module) :], module))
        if module not in done:
            for target in sorted(graph[module]):
                visit(target, (*path, module))
            done.add(module)

    for module in sorted(graph):
        visit(module, ())


def test_core_touches_nothing_outside_itself() -> None:
    core = {module: targets for module, targets in imports().items() if is_within(module, "kafkad.core")}
    outside = {(module, target) for module, targets in core.items() for target in targets}
    roots = {(module, target.split(".")[0]) for module, target in outside if not is_within(target, "kafkad")}
    assert {(module, root) for module, root in roots if root not in CORE_MAY_IMPORT} == set()


def test_core_opens_and_prints_nothing() -> None:
    for module, tree in sources().items():
        if is_within(module, "kafkad.core"):
            calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
            names = {call.id for call in calls if isinstance(call, ast.Name)}
            assert not names & {"open", "print", "input"}, module


def test_kio_is_behind_the_wire() -> None:
    """And in the client that our own commands talk to a broker with, which is no part of the broker."""
    knowing = {module for module, targets in imports().items() if any(is_within(target, "kio") for target in targets)}
    outside = {module for module in knowing if not is_within(module, "kafkad.wire")}
    assert all(is_within(module, "kafkad.client") for module in outside), outside


def test_every_outside_thing_has_its_adapter() -> None:
    """zmq, sqlite3, kazoo and mmap are imported in adapters, except where a process makes its own context."""
    keepers = {"zmq": {"kafkad.processes.runtime.peers"}, "sqlite3": set(), "kazoo": set(), "mmap": set()}
    for module, targets in imports().items():
        for target in targets:
            root = target.split(".")[0]
            if root in keepers and not is_within(module, "kafkad.adapters"):
                assert module in keepers[root], f"{module} imports {target}"


def test_no_module_is_named_after_nothing() -> None:
    names = {module.split(".")[-1] for module in sources()}
    assert names & BAD_NAMES == set()
    assert [name for name in names if re.search(r"_part\d|\d$", name)] == []


def test_every_module_says_what_it_answers() -> None:
    assert [module for module, tree in sources().items() if not ast.get_docstring(tree)] == []


@pytest.mark.parametrize("folder", ["kafkad", "spark", "bench"])
def test_functions_fit_on_one_screen(folder: str) -> None:
    lengths = {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None
    }
    assert {name: length for name, length in lengths.items() if length > FUNCTION_LINES} == {}


FOR_OTHERS = {"kafkad_register_topic_configs"}
"""What the built-in plugins need of this Kafka has: an example is the user."""


def test_every_hook_has_a_user_among_the_built_ins_or_else_an_example() -> None:
    hooks = {name for name in vars(hookspecs) if name.startswith("kafkad_")}
    used = {name for module in BUILT_IN for name in vars(import_module(module))}
    assert hooks - used == FOR_OTHERS
    examples = "".join(path.read_text() for path in (ROOT / "examples").rglob("*.py"))
    assert [hook for hook in FOR_OTHERS if f"def {hook}(" not in examples] == []


def test_broad_excepts_are_only_where_a_process_ends_or_a_plugin_is_called() -> None:
    broad = {
        module
        for module, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and _is_broad(node)
    }
    assert broad == BROAD_EXCEPTS.keys()


def _is_broad(handler: ast.ExceptHandler) -> bool:
    """Takes everything, and does not raise it again."""
    catches = handler.type is None or (
        isinstance(handler.type, ast.Name) and handler.type.id in ("Exception", "BaseException")
    )
    return catches and not any(isinstance(node, ast.Raise) for node in ast.walk(handler))


def decisions() -> list[Path]:
    return sorted(path for path in DECISIONS.glob("*.md") if path.name != "README.md")


def test_decisions_are_numbered_once_and_listed() -> None:
    numbers = [path.name[:3] for path in decisions()]
    assert len(set(numbers)) == len(numbers)
    listed = re.findall(r"\]\((\d{3}-[\w-]+\.md)\)", (DECISIONS / "README.md").read_text())
    assert listed == [path.name for path in decisions()]


def test_decisions_are_titled_by_their_number() -> None:
    for path in decisions():
        first = path.read_text().splitlines()[0]
        assert first.startswith(f"# {path.name[:3]}: "), f"{path.name}: {first}"
