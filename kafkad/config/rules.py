"""Which values contradict each other?

Each rule answers with the option to change and what is wrong; none of them changes anything.
"""

from collections.abc import Iterator, Mapping

from kafkad.config.problems import ConfigProblem
from kafkad.core.setting_values import Value


def contradictions(values: Mapping[str, Value]) -> Iterator[ConfigProblem]:
    for rule in (_identity, _request_sizes, _log_dirs, _ages, _compaction, _dedupe_buffer, _groups):
        for name, message in rule(values):
            yield ConfigProblem(name=name, message=message)


_Found = Iterator[tuple[str, str]]


def _number(values: Mapping[str, Value], name: str) -> int:
    value = values[name]
    assert isinstance(value, int), f"{name} is an integer option"
    return value


def _identity(values: Mapping[str, Value]) -> _Found:
    if values["node.id"] != values["broker.id"]:
        yield "broker.id", f"is {values['broker.id']}, but node.id is {values['node.id']}; remove one of them"


def _request_sizes(values: Mapping[str, Value]) -> _Found:
    largest = _number(values, "socket.request.max.bytes")
    queued = _number(values, "queued.max.request.bytes")
    if 0 < queued < largest:
        yield "queued.max.request.bytes", f"must be -1 or at least socket.request.max.bytes, {largest}"
    if _number(values, "kafkad.arena.bytes") < largest:
        yield "kafkad.arena.bytes", f"must be at least socket.request.max.bytes, {largest}"


def _log_dirs(values: Mapping[str, Value]) -> _Found:
    name = "log.dirs" if values["log.dirs"] is not None else "log.dir"
    folders = values[name]
    if not isinstance(folders, tuple) or not folders or "" in folders:
        yield name, "at least one log directory is needed, and none may be empty"
    elif len(set(folders)) < len(folders):
        yield name, "a log directory is there twice"


def _ages(values: Mapping[str, Value]) -> _Found:
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        if values[name] == 0:
            yield name, "must be -1, which is without limit, or at least 1"
    for name in ("log.roll.ms", "log.roll.hours"):
        age = values[name]
        if isinstance(age, int) and age < 1:
            yield name, "must be at least 1"
    for name in ("log.roll.jitter.ms", "log.roll.jitter.hours"):
        age = values[name]
        if isinstance(age, int) and age < 0:
            yield name, "must be at least 0"


def _compaction(values: Mapping[str, Value]) -> _Found:
    least = _number(values, "log.cleaner.min.compaction.lag.ms")
    most = _number(values, "log.cleaner.max.compaction.lag.ms")
    if least > most:
        yield "log.cleaner.min.compaction.lag.ms", f"is more than log.cleaner.max.compaction.lag.ms, {most}"


def _dedupe_buffer(values: Mapping[str, Value]) -> _Found:
    threads = _number(values, "log.cleaner.threads")
    if _number(values, "log.cleaner.dedupe.buffer.size") < threads * 1024 * 1024:
        yield "log.cleaner.dedupe.buffer.size", "must be at least 1 MB for each cleaner"


def _groups(values: Mapping[str, Value]) -> _Found:
    codec = _number(values, "offsets.topic.compression.codec")
    if not 0 <= codec <= _LAST_CODEC:
        yield "offsets.topic.compression.codec", f"must be a codec's number, 0 to {_LAST_CODEC}"
    for rest in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"):
        name, least, most = f"group.consumer.{rest}", f"group.consumer.min.{rest}", f"group.consumer.max.{rest}"
        if _number(values, most) < _number(values, least):
            yield most, f"must be greater than or equal to {least}"
        elif _number(values, name) < _number(values, least):
            yield name, f"must be greater than or equal to {least}"
        elif _number(values, name) > _number(values, most):
            yield name, f"must be less than or equal to {most}"
    heartbeat, session = "group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"
    if _number(values, heartbeat) >= _number(values, session):
        yield heartbeat, f"must be less than {session}"


_LAST_CODEC = 4
"""zstd; 0 is none."""
