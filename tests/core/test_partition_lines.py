from kafkad.core.partition_lines import NAMED, Level, PartitionEvent, PartitionLines

SHRUNK = PartitionEvent(Level.WARNING, "ISR shrunk for", "broker 3 is not registered")
NO_LEADER = PartitionEvent(Level.ERROR, "no leader for", "no broker of the ISR is live")


def test_one_partition_is_named_with_its_values_and_its_cause() -> None:
    lines = PartitionLines()
    lines.add(SHRUNK, "t-0 from [1,3] to [1]")
    assert lines.take() == [(Level.WARNING, "ISR shrunk for t-0 from [1,3] to [1]: broker 3 is not registered")]
    assert lines.take() == []


def test_ten_thousand_partitions_are_one_line_of_each_event_and_cause() -> None:
    lines = PartitionLines()
    for index in range(10_000):
        lines.add(SHRUNK, f"t-{index} from [1,3] to [1]")
    lines.add(NO_LEADER, "u-0 (ISR [3])")
    (_, first), (_, second) = lines.take()
    assert first.count(" from ") == NAMED
    assert first.endswith("t-2 from [1,3] to [1] and 9997 more partitions: broker 3 is not registered")
    assert second == "no leader for u-0 (ISR [3]): no broker of the ISR is live"
