"""The state that the controller's handlers use, and the responses that they return."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kafkad.core.connections.log_rate_limit import LogRateLimit
from kafkad.core.controller.configs import ConfigRules
from kafkad.core.controller.elected.elected import ElectedController
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
    """`loggers` are the names and levels of the broker's loggers in DescribeConfigs."""

    controller: ElectedController
    configs: ConfigTables
    random_source: RandomSource
    producer_ids: ProducerIdControlManager
    loggers: Mapping[str, str] = field(default_factory=lambda: {"root": "INFO"})
    log_rate_limit: LogRateLimit = field(default_factory=LogRateLimit)
    """For log lines of failed requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseAfter:
    """A response that waits until the live local processes have applied the changes, or until `timeout_ms` after the
    request arrived.
    """

    body: bytes
    timeout_ms: int


Response = bytes | ResponseAfter
