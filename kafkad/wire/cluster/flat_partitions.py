"""Old versions have a flat list of partitions, each with its topic name; the values group partitions by topic."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kafkad.wire.cluster.schema import Field, FormOf, string, struct_of


def flat(create: Callable[..., Any], fields: Sequence[Field]) -> FormOf:
    """Pairs (topic name, state), encoded as one structure that begins with the name."""
    return struct_of(
        lambda *, topic_name, **values: (topic_name, create(**values)),
        [Field("topic_name", string, value=lambda pair: pair[0]), *(_of_second(field) for field in fields)],
    )


def _of_second(field: Field) -> Field:
    name = field.name
    return field._replace(value=lambda pair: getattr(pair[1], name))


def grouped(pairs: Iterable[tuple[str, Any]]) -> list[tuple[str, tuple[Any, ...]]]:
    """The values by topic name, in the order of the first appearance of each name."""
    topics: dict[str, list[Any]] = {}
    for name, value in pairs:
        topics.setdefault(name, []).append(value)
    return [(name, tuple(values)) for name, values in topics.items()]
