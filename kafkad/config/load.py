"""Load the configuration from a file, or from the defaults, with overrides of the command line.

Only this module of the folder reads files, the environment and the number of cores; tests pass them as arguments.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kafkad.config import locations, properties
from kafkad.config.build import build
from kafkad.config.entities.broker import BrokerConfig, Texts
from kafkad.config.problems import ConfigProblem, InvalidConfiguration
from kafkad.config.table import BROKER_TABLE
from kafkad.core.settings.values import Value

LARGEST_FILE = 1 << 20
MAX_PROBLEMS = 100


def load(
    path: str | os.PathLike[str] | None,
    overrides: Sequence[tuple[str, str]] = (),
    *,
    cores: int | None = None,
    environ: Mapping[str, str] | None = None,
    is_root: bool | None = None,
    found_id: int | None = None,
) -> BrokerConfig:
    """The configuration of `path` with `overrides`. Raises InvalidConfiguration with all problems.

    `found_id` is the id of a broker without a configured id.
    """
    places: dict[str, str] = {}
    repeated: list[str] = []
    static = _read(path, places, repeated) if path is not None else {}
    for name, value in overrides:
        static[name] = value
        places[name] = "--override"
    _mirror_identity(static)
    defaults = machine_defaults(
        cores=cores if cores is not None else len(os.sched_getaffinity(0)),
        environ=environ if environ is not None else os.environ,
        is_root=is_root if is_root is not None else os.geteuid() == 0,
    )
    if found_id is not None:
        defaults["node.id"] = found_id
    try:
        config = build(Texts(static=static, cluster={}, broker={}, defaults=defaults))
    except InvalidConfiguration as error:
        named = [_with_place(problem, places) for problem in error.problems[:MAX_PROBLEMS]]
        if len(error.problems) > MAX_PROBLEMS:
            more = f"and {len(error.problems) - MAX_PROBLEMS} more problems"
            named.append(ConfigProblem(name="", message=more))
        raise InvalidConfiguration(named) from None
    return replace(config, notices=(*repeated[:MAX_PROBLEMS], *config.notices)) if repeated else config


def default_file() -> str | None:
    """The file without one on the command line: the system's file, if it exists."""
    return locations.STATIC_FILE if os.path.exists(locations.STATIC_FILE) else None


def machine_defaults(*, cores: int, environ: Mapping[str, str], is_root: bool) -> dict[str, Value]:
    """Defaults that depend on the machine: a small host gets fewer processes."""
    defaults: dict[str, Value] = {
        "log.dir": (locations.default_log_dir(environ, is_root),),
        "kafkad.runtime.dir": locations.default_runtime_dir(environ, is_root),
    }
    plugins_dir = locations.default_plugins_dir(environ)
    # The first installation of a plugin creates the default folder. A configured folder must exist.
    if os.path.isdir(plugins_dir):
        defaults["kafkad.plugins.dir"] = plugins_dir
    # Together at most the number of cores: a third process on two cores costs each request a third more CPU
    # (docs/decisions, 008).
    networks = min(_usual("num.network.threads"), max(1, cores // 2))
    defaults["num.network.threads"] = networks
    defaults["num.io.threads"] = min(_usual("num.io.threads"), max(1, cores - networks))
    return defaults


def _usual(name: str) -> int:
    default = BROKER_TABLE[name].default
    assert isinstance(default, int), f"{name} is an integer option"
    return default


def _read(path: str | os.PathLike[str], places: dict[str, str], repeated: list[str]) -> dict[str, str]:
    file = Path(path)
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            message = f"{file} has more than {LARGEST_FILE:,} bytes, and is not a broker's configuration"
            raise InvalidConfiguration([ConfigProblem(name="", message=message)])
        entries = properties.parse(properties.decode(data))
    except OSError as failure:
        message = f"can't read {file}: {failure.strerror}"
        raise InvalidConfiguration([ConfigProblem(name="", message=message)]) from None
    except properties.InvalidProperties as error:
        raise InvalidConfiguration([ConfigProblem(name="", message=str(error), place=str(file))]) from None
    static = {}
    for entry in entries:
        place = f"{file.name} line {entry.line}"
        if entry.name in static:
            # As with java.util.Properties, the last one wins.
            message = f"occurs again, and overrides {places[entry.name]}"
            repeated.append(str(ConfigProblem(name=entry.name, message=message, place=place)))
        static[entry.name] = entry.value
        places[entry.name] = place
    return static


def _mirror_identity(static: dict[str, str]) -> None:
    """As in Kafka, setting one of node.id and broker.id sets both; broker.id=-1 counts as unset."""
    old_name = static.get("broker.id", "-1").strip()
    if "node.id" not in static and old_name.isdecimal():
        static["node.id"] = old_name
    elif old_name == "-1" and static.get("node.id", "").strip().isdecimal():
        static["broker.id"] = static["node.id"]


def _with_place(problem: ConfigProblem, places: Mapping[str, str]) -> ConfigProblem:
    place = problem.place or places.get(problem.name, "")
    return ConfigProblem(name=problem.name, message=problem.message, place=place)
