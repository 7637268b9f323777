"""The reasons why options have no effect or are rejected in this version, one line each."""

from kafkad.core.log.settings import GROWS, NO_TIERS, TIERED
from kafkad.core.settings.option import no_effect, refused

ALL_IN_SYNC = no_effect("a commit waits for all replicas in sync")
AUTHORIZER = refused("authorization is not supported yet, so nothing would be protected; remove the line")
LOOKED_UP = no_effect("patterns are resolved when topics change")
ENCODER = no_effect("the store has no passwords")
JMX = no_effect("there is no JMX without a JVM; see kafkad.metrics.listener")
JVM_CLIENT = no_effect("it selects a JVM class; kafkad has one client for connections with and without TLS")
JVM = refused("a JVM class can't be loaded here; remove the line or write a kafkad plugin")
JVM_METRICS = refused(
    "a JVM class can't be loaded here; see kafkad.metrics.reporters",
    ("org.apache.kafka.common.metrics.JmxReporter",),
)
JVM_QUOTA = refused("a JVM class can't be loaded here; see kafkad.quota.manager")
KRAFT = no_effect("there is no KRaft quorum")
LOAD_STEPS = no_effect("coordinators load their logs in fixed steps")
MIGRATION = refused("there is no KRaft quorum to move to; remove the line")
MUTATIONS = no_effect("topic changes have no quota yet")
NO_BUFFER = no_effect("a coordinator keeps no buffers")
NO_LINGER = no_effect("a coordinator writes at once")
NO_QUEUE = no_effect("requests wait in their connections; the limits are queued.max.request.bytes and the arena")
NO_WINDOWS = no_effect("the copy rate is limited without windows")
JVM_CIPHERS = refused("names of the JVM's cipher suites are not supported; remove the line")
UNCHECKED = refused("revocation of ZooKeeper's certificate is not checked; remove the line", False)
ONE_COORDINATOR = no_effect("there is one group coordinator")
ONE_PHASE = no_effect("only kafkad's coordinator decides transactions")
ONE_START = no_effect("listeners open when the broker is ready")
ONE_STORE = no_effect("zookeeper.connect chooses between ZooKeeper and the embedded store")
PEM = no_effect("certificates in a PEM file have no password")
PLAIN = refused("only PLAINTEXT is supported yet")
PROCESSES = no_effect("kafkad uses processes; see num.network.threads and num.io.threads")
PLUGIN_ONLY = no_effect("only plugins such as examples/csv_metrics.py read it")
PROMETHEUS = no_effect("Prometheus computes rates from counters")
REPLACED = no_effect("it was replaced by log.message.timestamp.before.max.ms and …after.max.ms")
SASL = no_effect("there are no SASL listeners yet")
SECURITY = no_effect("there is no authentication yet")
SHARE = no_effect("there are no share groups")
STREAMS = no_effect("there are no streams groups")
TELEMETRY = no_effect("clients' metrics are not collected")
TLS = no_effect("there are no TLS listeners yet")
TOKENS = refused("delegation tokens are not supported yet; remove the line")
UNSTABLE = no_effect("only stable versions are supported")
V2_ONLY = no_effect("batches are stored and served in format 2 only")
WHEEL = no_effect("completed operations leave the timing wheel at once")

__all__ = ["GROWS", "NO_TIERS", "TIERED"]
