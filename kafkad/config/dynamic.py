"""Changes of options while the broker runs.

Changes come from config requests, cluster-wide or for this broker, or from a reloaded file. Both result in a complete
new configuration. Options that require a restart keep their value and are returned.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kafkad.config.build import build
from kafkad.config.entities.broker import BrokerConfig, Texts
from kafkad.config.entities.log_defaults import unit_synonyms
from kafkad.config.problems import InvalidConfiguration
from kafkad.config.table import BROKER_TABLE, LISTENER_OVERRIDE, base_name, find
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.quoting import quoted
from kafkad.core.settings.limits import EachOneOf
from kafkad.core.settings.option import InvalidSetting, Support, UpdateMode

log = logging.getLogger(__name__)

# Dynamic in Kafka. Here they determine processes and sockets, so they require a restart: their rows are read-only.
FIXED_AT_START = frozenset(
    {
        "listeners",
        "listener.security.protocol.map",
        "num.network.threads",
        "num.io.threads",
        "log.cleaner.threads",
    }
)
# Read-only in Kafka, so requests can't change them here. A reloaded file can.
REREAD_ONLY = frozenset(
    {
        "auto.create.topics.enable",
        "connections.max.idle.ms",
        "default.replication.factor",
        "delete.topic.enable",
        "fetch.max.bytes",
        "kafka.metrics.polling.interval.secs",
        "log.retention.check.interval.ms",
        "num.partitions",
        "quota.consumer.default",
        "quota.producer.default",
        "quota.window.num",
        "quota.window.size.seconds",
    }
)
# Cluster-wide also for a listener: a change per listener could close the connection of the request.
_CLUSTER_LEVEL = frozenset({"max.connections", "max.connection.creation.rate"})
_THREAD_COUNTS = frozenset({"background.threads", "num.recovery.threads.per.data.dir", "num.replica.fetchers"})
_RESTART = "changes of {} require a restart: change server.properties and restart the broker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """`config` is the new configuration; `applied` and `needs_restart` are the names of changed options."""

    config: BrokerConfig
    applied: tuple[str, ...]
    needs_restart: tuple[str, ...]


def validate_dynamic(
    broker: BrokerConfig,
    changes: Mapping[str, str],
    *,
    per_broker: bool,
    cleanup_policies: Collection[str] = (),
) -> None:
    """Check changes of this broker or, without `per_broker`, cluster-wide changes. Raises KafkaError.

    `cleanup_policies` are the policies of plugins.
    """
    names = {name: _update_mode(name) for name in changes}
    fixed = sorted(name for name, mode in names.items() if mode is UpdateMode.READ_ONLY)
    if fixed:
        raise _rejection(_not_dynamically(fixed))
    _validate_values(broker, changes)
    single = sorted(name for name, mode in names.items() if mode is UpdateMode.PER_BROKER)
    if single and not per_broker:
        listed = ", ".join(single)
        raise _rejection(
            f"Cannot update these configs at default cluster level, broker id must be specified: [{listed}]"
        )
    texts = broker.texts
    layer = "broker" if per_broker else "cluster"
    overlaid = {"broker": texts.broker, "cluster": texts.cluster, layer: changes}
    try:
        changed = build(Texts(static=texts.static, defaults=texts.defaults, **overlaid))
    except InvalidConfiguration as error:
        raise _rejection(str(error)) from None
    unknown = unknown_policy(changed, cleanup_policies)
    if unknown is not None:
        raise _rejection(unknown)


def unknown_policy(broker: BrokerConfig, cleanup_policies: Collection[str]) -> str | None:
    """The error for a policy in log.cleanup.policy that neither Kafka nor a plugin has; None if there is none."""
    ruled = tuple(sorted(broker.log.cleanup_policy - frozenset(cleanup_policies)))
    problem = EachOneOf(("compact", "delete")).problem(ruled)
    return None if problem is None else str(InvalidSetting("log.cleanup.policy", *problem))


def in_force(stored: Mapping[str, str]) -> dict[str, str]:
    """Stored changes of dynamic options; an earlier version may have accepted and stored others."""
    return {name: text for name, text in stored.items() if _is_dynamic(name)}


def apply_dynamic(
    broker: BrokerConfig, cluster_overrides: Mapping[str, str], broker_overrides: Mapping[str, str]
) -> BrokerConfig:
    """The configuration with the stored changes, which were validated before they were stored."""
    texts = broker.texts
    return _rebuilt(
        broker,
        Texts(
            static=texts.static,
            cluster=in_force(cluster_overrides),
            broker=in_force(broker_overrides),
            defaults=texts.defaults,
        ),
    )


def with_static(broker: BrokerConfig, static: Mapping[str, str]) -> BrokerConfig:
    """The configuration with `static` as content of the file, checked by `reloadable`; stored changes override it."""
    texts = broker.texts
    return _rebuilt(broker, Texts(static=static, cluster=texts.cluster, broker=texts.broker, defaults=texts.defaults))


def _rebuilt(broker: BrokerConfig, texts: Texts) -> BrokerConfig:
    """The configuration of `texts`. File and stored changes were checked separately.

    If they contradict each other, the present configuration is returned.
    """
    try:
        return build(texts)
    except InvalidConfiguration as error:
        for problem in error.problems:
            log.error("configuration unchanged: server.properties contradicts dynamic configs: %s", problem)
        return broker


def reloadable(old: BrokerConfig, new: BrokerConfig) -> Reload:
    """The changes of a reloaded file that require no restart; stored changes override them."""
    names = sorted(set(old.values) | set(new.values))
    changed = [name for name in names if old.values.get(name) != new.values.get(name)]
    later = tuple(name for name in changed if not can_change_running(name))
    static = dict(new.texts.static)
    for name in later:
        static.pop(name, None)
        if name in old.texts.static:
            static[name] = old.texts.static[name]
    texts = old.texts
    kept = build(Texts(static=static, cluster=texts.cluster, broker=texts.broker, defaults=texts.defaults))
    applied = tuple(name for name in changed if name not in later and kept.values.get(name) != old.values.get(name))
    return Reload(config=kept, applied=applied, needs_restart=later)


def can_change_running(name: str) -> bool:
    """Whether a running broker can apply a new value."""
    setting = find(name)
    if setting is None or setting.status.support is not Support.WORKING:
        # An option without effect requires no restart.
        return True
    # Requests can change only the option with the finest unit; a reloaded file may use any unit.
    modes = (BROKER_TABLE[known].update_mode for known in unit_synonyms(name) if known in BROKER_TABLE)
    changeable = any(mode is not UpdateMode.READ_ONLY for mode in (setting.update_mode, *modes))
    return changeable or name in REREAD_ONLY


def _is_dynamic(name: str) -> bool:
    setting = find(name)
    return setting is not None and setting.update_mode is not UpdateMode.READ_ONLY


def _not_dynamically(names: list[str]) -> str:
    """Kafka's message, with a hint for options that are dynamic in Kafka."""
    message = f"Cannot update these configs dynamically: [{', '.join(names)}]"
    at_start = [name for name in names if name in FIXED_AT_START]
    return f"{message}; {_RESTART.format(', '.join(at_start))}" if at_start else message


def _update_mode(name: str) -> UpdateMode:
    setting = find(name)
    if setting is None:
        raise _rejection(f"Unknown broker config name: {quoted(name)}")
    override = LISTENER_OVERRIDE.fullmatch(name)
    if override is not None and base_name(override[2]) in _CLUSTER_LEVEL:
        return UpdateMode.CLUSTER_WIDE
    return setting.update_mode


def _validate_values(broker: BrokerConfig, changes: Mapping[str, str]) -> None:
    for name, text in changes.items():
        setting = find(name)
        assert setting is not None, "unknown names are rejected before"
        try:
            value = setting.parse(text)
        except InvalidSetting as error:
            raise _rejection(str(error)) from None
        if name in _THREAD_COUNTS and isinstance(value, int):
            _validate_thread_count(name, broker.values[name], value)


def _validate_thread_count(name: str, current: object, new_count: int) -> None:
    """As in Kafka, one change may at most double or halve a number of threads."""
    assert isinstance(current, int), f"{name} is an integer option"
    failed = f"Dynamic thread count update validation failed for {name}={new_count}, value should"
    if new_count < current // 2:
        raise _rejection(f"{failed} be at least half the current value {current}")
    if new_count > current * 2:
        raise _rejection(f"{failed} not be greater than double the current value {current}")


def _rejection(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
