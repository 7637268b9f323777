"""Which words of a process's block does each metric have? Consecutive words, in the order of the catalogue."""

from kafkad.core.metrics.metric import Labels, MetricKind, MetricRow

COUNTER, GAUGE, HISTOGRAM = MetricKind


class BlockLayout:
    """The rows so far, and the first free word."""

    def __init__(self) -> None:
        self.rows: list[MetricRow] = []
        self.next_index = 0

    def add(
        self,
        kind: MetricKind,
        name: str,
        jmx_name: str,
        text: str,
        *,
        fixed: Labels = (),
        labels: tuple[str, ...] = (),
        shape: tuple[int, ...] = (),
        limits: tuple[float, ...] = (),
        per_process: bool = False,
        role: str = "",
        is_largest: bool = False,
        is_moment: bool = False,
        is_percent: bool = False,
        scale: float = 1.0,
    ) -> int:
        row = MetricRow(
            name=name,
            jmx_name=jmx_name,
            kind=kind,
            help=text,
            index=self.next_index,
            labels=labels,
            shape=shape,
            fixed_labels=fixed,
            per_process=per_process,
            role=role,
            is_largest=is_largest or is_moment,
            is_moment=is_moment,
            is_percent=is_percent,
            scale=scale,
            limits=limits,
        )
        self.rows.append(row)
        self.next_index += row.words
        return row.index

    def topic_counter(self, mbean: str, text: str) -> int:
        """A counter of kafka.server:type=BrokerTopicMetrics, for all topics together."""
        name = mbean.removesuffix("PerSec").lower()
        jmx_name = f"kafka.server:type=BrokerTopicMetrics,name={mbean}"
        return self.add(COUNTER, f"kafka_server_brokertopicmetrics_{name}", jmx_name, text)

    def purgatory(self, operation: str) -> int:
        return self.add(
            GAUGE,
            "kafka_server_delayedoperationpurgatory_purgatorysize",
            "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize",
            "Requests that wait for records, replicas or a timeout.",
            fixed=(("delayedOperation", operation),),
        )

    def throttled(self, role: str) -> int:
        return self.add(
            COUNTER,
            "kafkad_replication_throttled_bytes",
            "",
            "Bytes transferred by throttled replicas while a rate was set.",
            fixed=(("role", role),),
        )

    def gauge(self, name: str, jmx_name: str, text: str) -> int:
        return self.add(GAUGE, name, jmx_name, text)

    def largest(self, name: str, jmx_name: str, text: str, *, is_moment: bool = False) -> int:
        """A gauge with the largest value of all processes; with `is_moment`, the time since that moment."""
        return self.add(GAUGE, name, jmx_name, text, is_largest=True, is_moment=is_moment)

    def percent(self, name: str, jmx_name: str, text: str) -> int:
        """A gauge with the first words of all processes as a percentage of their second words."""
        return self.add(GAUGE, name, jmx_name, text, is_percent=True)

    def counter(self, name: str, jmx_name: str, text: str) -> int:
        return self.add(COUNTER, name, jmx_name, text)
