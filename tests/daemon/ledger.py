"""What a producer was told, and whether the log agrees with it."""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

PARTITIONS = 4


@dataclass(slots=True)
class Ledger:
    """By partition: how many numbers were sent, and (number, offset) pairs acknowledged, in order."""

    sent: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    acknowledged: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    refused: list[str] = field(default_factory=list)


def check_ledger(ledger: Ledger, log: dict[int, dict[int, int]], *, idempotent: bool) -> None:
    """Every acknowledged record is where the producer was told, in order, never twice.

    `log` is offset to number by partition. Without idempotence a request that was never answered may be in the
    log or not; it may even follow newer ones, sent on another connection after its own had broken.
    """
    if idempotent:
        assert ledger.refused == [], f"an idempotent producer was refused: {set(ledger.refused)}"
    for partition, by_offset in log.items():
        numbers = [by_offset[offset] for offset in sorted(by_offset)]
        repeated = len(numbers) - len(set(numbers))
        assert repeated == 0, f"partition {partition}: {repeated} records are in the log twice"
        acknowledged = ledger.acknowledged[partition]
        known = {number for number, _ in acknowledged}
        disorder = [(a, b) for a, b in pairwise(number for number in numbers if number in known) if a > b]
        assert not disorder, f"partition {partition}: out of order, first {disorder[0]}"
        lost = [pair for pair in acknowledged if by_offset.get(pair[1]) != pair[0]]
        assert not lost, f"partition {partition}: {len(lost)} acknowledged records are not at their offset: {lost[:3]}"
        if idempotent:
            sent = ledger.sent[partition]
            assert numbers == list(range(sent)), f"partition {partition}: {len(numbers)} of {sent} records, with gaps"
