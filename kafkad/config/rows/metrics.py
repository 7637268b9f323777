"""Options of metrics."""

from kafkad.config.rows.reasons import JMX, JVM_METRICS, PLUGIN_ONLY, PROMETHEUS
from kafkad.core.settings.limits import Between
from kafkad.core.settings.option import Setting
from kafkad.core.settings.rows import BOOLEAN, CLUSTER_WIDE, INT, LIST, LONG, LOW, READ_ONLY, STRING, row

# fmt: off
SETTINGS: tuple[Setting, ...] = (
    row("metric.reporters", LIST, (), None, LOW, CLUSTER_WIDE,
        "JVM classes that report metrics.", status=JVM_METRICS),
    row("auto.include.jmx.reporter", BOOLEAN, True, None, LOW, READ_ONLY,
        "Adds the JMX reporter.", status=JMX),
    row("kafka.metrics.reporters", LIST, (), None, LOW, READ_ONLY,
        "JVM classes that report the older kind of metrics.", status=JVM_METRICS),
    row("kafka.metrics.polling.interval.secs", INT, 10, Between(1), LOW, READ_ONLY,
        "Interval of reporters that are polled (Prometheus is not)."),
    row("kafka.csv.metrics.dir", STRING, None, None, LOW, READ_ONLY,
        "Folder of a reporter that writes CSV files.", status=PLUGIN_ONLY),
    row("kafka.csv.metrics.reporter.enabled", BOOLEAN, True, None, LOW, READ_ONLY,
        "Whether that reporter writes anything, when kafkad.metrics.reporters names it.", status=PLUGIN_ONLY),
    row("metrics.num.samples", INT, 2, Between(1), LOW, READ_ONLY,
        "Samples that a rate is averaged over.", status=PROMETHEUS),
    row("metrics.recording.level", STRING, "INFO", None, LOW, READ_ONLY,
        "How detailed the recorded metrics are.", status=PROMETHEUS),
    row("metrics.sample.window.ms", LONG, 30_000, Between(1), LOW, READ_ONLY,
        "Length of one sample of a rate.", status=PROMETHEUS),
)
# fmt: on
