"""The leader's log lines about ISR changes that it requested."""

from kafkad.core.partition_lines import Level, PartitionEvent, PartitionLines, shown
from kafkad.core.replication.leading.follower import UNKNOWN_OFFSET
from kafkad.core.replication.leading.led_partition import LedPartition
from kafkad.core.types import TopicPartition


def add_isr_change(
    lines: PartitionLines, at: TopicPartition, before: tuple[int, ...], led: LedPartition, log_end: int
) -> None:
    """`before` is the ISR before the change; `log_end` is the leader's log end offset."""
    isr = led.state.isr
    change = f"{at} from {shown(before)} to {shown(isr)}"
    removed, joined = _named(before, isr), _named(isr, before)
    if removed:
        ends = ", ".join(f"replica {each} at {_offset(led.log_end_of(each))}" for each in before if each not in isr)
        cause = (
            f"{removed} not caught up for {led.max_lag_ms / 1000:g} s (replica.lag.time.max.ms); "
            "a caught-up replica joins again"
        )
        event = PartitionEvent(Level.WARNING, "ISR shrunk for", cause)
        lines.add(event, f"{change} (log end offset {log_end}, {ends})")
    elif joined:
        lines.add(PartitionEvent(Level.INFO, "ISR expanded for", f"{joined} caught up"), change)


def _named(some: tuple[int, ...], others: tuple[int, ...]) -> str:
    found = [str(each) for each in some if each not in others]
    return "" if not found else f"replica {found[0]} is" if len(found) == 1 else f"replicas {', '.join(found)} are"


def _offset(offset: int) -> str:
    return "an unknown offset" if offset == UNKNOWN_OFFSET else str(offset)
