"""The plans as text, and as values for JSON."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kafkad.cli.adoption.foreign_topics import ForeignCluster
from kafkad.cli.adoption.plan import KNOWN, TAKEN_OVER, TopicPlan
from kafkad.core.controller.store.nodes import encode_id

_UNITS = ("bytes", "KB", "MB", "GB", "TB", "PB")
_STEP = 1000


def lines(plans: Sequence[TopicPlan], sources: Sequence[ForeignCluster], set_aside: Sequence[Path]) -> Iterator[str]:
    for plan in plans:
        yield _summary(plan)
        yield f"  configs: {_configs(plan)}"
        yield from (f"  rejected config: {name}: {reason}" for name, reason in plan.rejected.items())
        yield from (f"  ! {problem}" for problem in plan.problems)
    for path in set_aside:
        yield f"{path} is not changed: it is a directory of a deleted or stray partition"
    for source in sources:
        for name, value in source.broker_configs.items():
            yield f"{name}={value} is a cluster-wide dynamic config: add it to server.properties ({source.source})"


def _summary(plan: TopicPlan) -> str:
    surveys = [each.survey for each in plan.found]
    magics = sorted(set().union(*(each.magics for each in surveys)))
    codecs = sorted(set().union(*(each.codecs for each in surveys)))
    facts = [f"{len({each.name.partition for each in plan.found})} of {plan.partitions} partition(s)"]
    facts += [_size(sum(each.bytes for each in plan.found)), f"{sum(len(each.logs) for each in plan.found)} segment(s)"]
    if any(each.batches for each in surveys):
        facts.append(f"{sum(each.records for each in surveys)} records")
    if magics:
        facts.append(f"magic {', '.join(map(str, magics))}")
    if codecs:
        facts.append(f"codecs {', '.join(codecs)}")
    unfinished = sum(len(each.unfinished) for each in plan.found)
    if unfinished:
        facts.append(f"{unfinished} file(s) of an interrupted deletion or compaction")
    return f"{plan.name}: {', '.join(facts)}"


def _configs(plan: TopicPlan) -> str:
    shown = " ".join(f"{name}={value}" for name, value in plan.configs.items())
    if plan.state == KNOWN:
        return "the broker already has the topic and keeps its configs"
    if plan.source is None:
        kept = " (already set)" if plan.state == TAKEN_OVER else ""
        return f"{shown or 'defaults of the broker'}, because no source has the topic{kept}"
    return f"{shown or 'none'} (from {plan.source})"


def as_json(
    plans: Sequence[TopicPlan], sources: Sequence[ForeignCluster], set_aside: Sequence[Path], *, is_done: bool
) -> dict[str, Any]:
    return {
        "adopted": is_done,
        "topics": [_topic(plan) for plan in plans],
        "set_aside": [str(path) for path in set_aside],
        "broker_configs": {name: value for source in sources for name, value in source.broker_configs.items()},
    }


def _topic(plan: TopicPlan) -> dict[str, Any]:
    return {
        "topic": plan.name,
        "state": plan.state,
        "topic_id": None if plan.topic_id is None else encode_id(plan.topic_id),
        "partition_count": plan.partitions,
        "source": plan.source,
        "configs": plan.configs,
        "refused_configs": plan.rejected,
        "problems": plan.problems,
        "partitions": [
            {
                "partition": each.name.partition,
                "directory": str(each.path),
                "bytes": each.bytes,
                "segments": len(each.logs),
                "records": each.survey.records,
                "end_offset": each.survey.end_offset,
                "magics": sorted(each.survey.magics),
                "codecs": sorted(each.survey.codecs),
                "damage": each.survey.damage,
                "unfinished": list(each.unfinished),
            }
            for each in plan.found
        ],
    }


def _size(count: float) -> str:
    unit = 0
    while count >= _STEP and unit < len(_UNITS) - 1:
        count, unit = count / _STEP, unit + 1
    return f"{count:.0f} {_UNITS[unit]}" if unit == 0 else f"{count:.1f} {_UNITS[unit]}"
