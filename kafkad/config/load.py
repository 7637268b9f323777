"""Where does the configuration come from?

A file, or documented defaults, with overrides of the command line on top. This is the only module of the folder that
reads a file, the environment or the machine; tests pass them in instead.
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
MOST_PROBLEMS = 100


def load(
    path: str | os.PathLike[str] | None,
    overrides: Sequence[tuple[str, str]] = (),
    *,
    cores: int | None = None,
    environ: Mapping[str, str] | None = None,
    is_root: bool | None = None,
    found_id: int | None = None,
) -> BrokerConfig:
    """The configuration of `path` with `overrides`; raises InvalidConfiguration with every problem found.

    `found_id` is the number of a broker that none is configured for.
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
    except InvalidConfiguration as refusal:
        named = [_with_place(problem, places) for problem in refusal.problems[:MOST_PROBLEMS]]
        if len(refusal.problems) > MOST_PROBLEMS:
            more = f"and {len(refusal.problems) - MOST_PROBLEMS} more mistakes"
            named.append(ConfigProblem(name="", message=more))
        raise InvalidConfiguration(named) from None
    return replace(config, notices=(*repeated[:MOST_PROBLEMS], *config.notices)) if repeated else config


def default_file() -> str | None:
    """The file that is read when the command line names none: the system's, if it is there."""
    return locations.STATIC_FILE if os.path.exists(locations.STATIC_FILE) else None


def machine_defaults(*, cores: int, environ: Mapping[str, str], is_root: bool) -> dict[str, Value]:
    """Defaults that depend on the machine: a small host must not pay for processes that it can't run."""
    defaults: dict[str, Value] = {
        "log.dir": (locations.default_log_dir(environ, is_root),),
        "kafkad.runtime.dir": locations.default_runtime_dir(environ, is_root),
    }
    plugins_dir = locations.default_plugins_dir(environ)
    # The default folder is made when the first plugin is installed. A configured folder has to exist.
    if os.path.isdir(plugins_dir):
        defaults["kafkad.plugins.dir"] = plugins_dir
    # Together no more than there are cores: a request passes through one of each, and a third process on two
    # cores costs every request a third more CPU (docs/decisions, 008).
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
            message = f"{file} has more than {LARGEST_FILE:,} bytes, and is no broker's configuration"
            raise InvalidConfiguration([ConfigProblem(name="", message=message)])
        entries = properties.parse(properties.decode(data))
    except OSError as failure:
        message = f"can't read {file}: {failure.strerror}"
        raise InvalidConfiguration([ConfigProblem(name="", message=message)]) from None
    except properties.InvalidProperties as refusal:
        raise InvalidConfiguration([ConfigProblem(name="", message=str(refusal), place=str(file))]) from None
    static = {}
    for entry in entries:
        place = f"{file.name} line {entry.line}"
        if entry.name in static:
            # As with java.util.Properties, the last one wins.
            message = f"is there again, and wins over {places[entry.name]}"
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
