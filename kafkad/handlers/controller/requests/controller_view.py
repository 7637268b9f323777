"""The state that the controller's handlers use, and the responses that they return."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kafkad.core.connections.log_rate_limit import LogRateLimit
from kafkad.core.controller.configs import ConfigRules
from kafkad.core.controller.controller import Controller
from kafkad.core.controller.producer_ids import ProducerIdControlManager
from kafkad.core.controller.settings import RandomSource

LONGEST_WAIT_MS = 10_000
"""The longest time that a response waits for other processes to apply a change, in case a process hangs."""


class DescribedOption(Protocol):
    """One configuration option in DescribeConfigs; `synonyms` are (name, value, source)."""

    @property
    def name(self) -> str: ...
    @property
    def value(self) -> str | None: ...
    @property
    def source(self) -> int: ...
    @property
    def is_sensitive(self) -> bool: ...
    @property
    def read_only(self) -> bool: ...
    @property
    def config_type(self) -> int: ...
    @property
    def documentation(self) -> str: ...
    @property
    def synonyms(self) -> Sequence[tuple[str, str | None, int]]: ...


class ConfigTables(ConfigRules, Protocol):
    """The current configuration: the values of all options, and the options that may be set."""

    def describe_topic(self, overrides: Mapping[str, str]) -> Iterable[DescribedOption]: ...

    def describe_group(self, configs: Mapping[str, str]) -> Iterable[DescribedOption]: ...

    def describe_broker(self) -> Iterable[DescribedOption]: ...

    def describe_cluster_default(self) -> Iterable[DescribedOption]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerView:
    """`loggers` are the names and levels of the broker's loggers in DescribeConfigs.

    `log_dirs` are the log directories of this broker, `offline_dirs` the offline ones by index in log.dirs.
    """

    controller: Controller
    configs: ConfigTables
    random_source: RandomSource
    producer_ids: ProducerIdControlManager
    log_dirs: Sequence[str] = ()
    offline_dirs: Callable[[], frozenset[int]] = frozenset
    loggers: Mapping[str, str] = field(default_factory=lambda: {"root": "INFO"})
    log_rate_limit: LogRateLimit = field(default_factory=LogRateLimit)
    """For log lines of failed requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseAfter:
    """A response that waits for its changes.

    It is sent when all live local processes have applied metadata `version` and the topics `deleted` are deleted, or
    `timeout_ms` after the request arrived, whichever is first.
    """

    version: int
    body: bytes
    timeout_ms: int
    deleted: tuple[str, ...] = ()


Response = bytes | ResponseAfter
