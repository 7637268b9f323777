"""Configurations for the tests: a machine of their own, so that no test depends on where it runs."""

from pathlib import Path

from kafkad.config import BrokerConfig, InvalidConfiguration, load


def configured(*overrides: tuple[str, str], path: Path | None = None, cores: int = 64) -> BrokerConfig:
    """The configuration of a user at home, on a machine with many cores."""
    return load(path, overrides, cores=cores, environ={"HOME": "/home/user"}, is_root=False)


def problems(*overrides: tuple[str, str], path: Path | None = None) -> list[str]:
    """The lines that this configuration is refused with."""
    try:
        configured(*overrides, path=path)
    except InvalidConfiguration as error:
        return [str(problem) for problem in error.problems]
    return []
