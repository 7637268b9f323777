"""The log directories that get no new partitions."""

from kafkad.config import BrokerConfig


def cordoned_dirs(config: BrokerConfig) -> frozenset[int]:
    """Their indexes in log.dirs."""
    names = config.values["cordoned.log.dirs"]
    assert isinstance(names, tuple), "it is a list option"
    return frozenset(at for at, path in enumerate(config.log_dirs.log_dirs) if path in names or "*" in names)
