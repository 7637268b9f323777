"""Why an option has no effect, or is refused, in this version: one line each, for the person who sets it."""

from kafkad.core.log.settings import GROWS, NO_TIERS, TIERED
from kafkad.core.settings.option import no_effect, refused

ALL_IN_SYNC = no_effect("a commit waits for all replicas in sync")
AUTHORIZER = refused("there is no authorization yet, so nothing would be protected; remove the line")
LOOKED_UP = no_effect("patterns are looked up when topics change")
ENCODER = no_effect("no passwords are kept in the store")
JMX = no_effect("there is no JMX without a JVM; see kafkad.metrics.listener")
JVM_CLIENT = no_effect("the JVM chooses among its classes by it; here one client connects with and without TLS")
JVM = refused("a JVM class can't be loaded here; remove the line or write a kafkad plugin")
JVM_METRICS = refused(
    "a JVM class can't be loaded here; see kafkad.metrics.reporters",
    ("org.apache.kafka.common.metrics.JmxReporter",),
)
JVM_QUOTA = refused("a JVM class can't be loaded here; see kafkad.quota.manager")
KRAFT = no_effect("there is no KRaft quorum here")
LOAD_STEPS = no_effect("the logs of coordinators are read in steps of their own")
MIGRATION = refused("there is no KRaft quorum to move to; remove the line")
MUTATIONS = no_effect("topic changes have no quota yet")
NO_BUFFER = no_effect("a coordinator keeps no buffers")
NO_LINGER = no_effect("a coordinator writes at once")
NO_QUEUE = no_effect("a request waits in its connection, whose limits are queued.max.request.bytes and the arena")
NO_WINDOWS = no_effect("what was copied is paid back with time at once, without windows")
JVM_CIPHERS = refused("names of the JVM's cipher suites are not known here; remove the line")
UNCHECKED = refused("whether ZooKeeper's certificate was revoked is not checked; remove the line", False)
ONE_COORDINATOR = no_effect("there is one group coordinator")
ONE_PHASE = no_effect("only the coordinator here decides transactions")
ONE_START = no_effect("listeners open when the broker is ready")
ONE_STORE = no_effect("zookeeper.connect chooses between ZooKeeper and the embedded store")
PEM = no_effect("certificates in a PEM file have no password")
PLAIN = refused("only PLAINTEXT is served yet")
PROCESSES = no_effect("work is done by processes; see num.network.threads and num.io.threads")
PLUGIN_ONLY = no_effect("nothing but a plugin reads it, such as examples/csv_metrics.py")
PROMETHEUS = no_effect("the reader of the counters computes rates")
REPLACED = no_effect("it was replaced by log.message.timestamp.before.max.ms and …after.max.ms")
SASL = no_effect("there are no SASL listeners yet")
SECURITY = no_effect("there is no authentication yet")
SHARE = no_effect("there are no share groups")
STREAMS = no_effect("there are no streams groups")
TELEMETRY = no_effect("clients' metrics are not collected")
TLS = no_effect("there are no TLS listeners yet")
TOKENS = refused("there are no delegation tokens yet; remove the line")
UNSTABLE = no_effect("only stable versions are offered")
V2_ONLY = no_effect("batches are stored and served in format 2 only")
WHEEL = no_effect("a finished wait leaves the timing wheel at once")

__all__ = ["GROWS", "NO_TIERS", "TIERED"]
