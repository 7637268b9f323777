"""The table of all options.

Has the rows of all domains and the families of options with a listener or client name, and finds the most similar name
for an unknown option.
"""

import re
from itertools import chain

from kafkad.config.rows import broker, cluster, coordinators, logs, network, remote_storage, security
from kafkad.core.log.settings import TOPIC_SETTINGS
from kafkad.core.settings.limits import Between
from kafkad.core.settings.option import Setting, Support, no_effect
from kafkad.core.settings.rows import CLUSTER_WIDE, LONG, MEDIUM, PER_BROKER, READ_ONLY, STRING, row

# In the order of the documentation: the most used options first.
DOMAINS = {
    "Listeners and connections": network.SETTINGS,
    "Broker": broker.IDENTITY_SETTINGS,
    "Logs": logs.LOG_SETTINGS,
    "Topics": logs.TOPIC_SETTINGS,
    "kafkad's own": broker.OWN_SETTINGS,
    "Quotas": broker.QUOTA_SETTINGS,
    "Metrics": broker.METRICS_SETTINGS,
    "Cleaner": logs.CLEANER_SETTINGS,
    "Replication": logs.REPLICATION_SETTINGS,
    "Groups": coordinators.GROUP_SETTINGS,
    "Share groups": coordinators.SHARE_GROUP_SETTINGS,
    "Transactions": coordinators.TRANSACTION_SETTINGS,
    "Security": security.AUTHORIZATION_SETTINGS,
    "TLS": security.TLS_SETTINGS,
    "SASL": security.SASL_SETTINGS,
    "KRaft": cluster.KRAFT_SETTINGS,
    "ZooKeeper": cluster.ZOOKEEPER_SETTINGS,
    "Remote storage": remote_storage.SETTINGS,
}
BROKER_TABLE: dict[str, Setting] = {row.name: row for row in chain(*DOMAINS.values())}
TOPIC_TABLE: dict[str, Setting] = {row.name: row for row in TOPIC_SETTINGS}

# Options that Kafka has removed, and their replacements.
REPLACED_NAMES = {
    "port": "use listeners=PLAINTEXT://:PORT",
    "host.name": "use listeners=PLAINTEXT://HOST:PORT",
    "advertised.port": "use advertised.listeners=PLAINTEXT://HOST:PORT",
    "advertised.host.name": "use advertised.listeners=PLAINTEXT://HOST:PORT",
}

LISTENER_OVERRIDE = re.compile(r"listener\.name\.([^.]*)\.(.+)")
CLIENT_QUOTA = re.compile(r"kafkad\.quota\.client\.(.+)\.(producer|consumer)_byte_rate")
_PLUGIN_OPTION = re.compile(r"kafkad\.plugin\..+")
_STORAGE_OPTION = re.compile(r"(rsm|rlmm)\.config\..+")
_MECHANISM_OPTIONS = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
_PER_LISTENER = no_effect("options of a single listener are not read yet")
_REMOTE_PLUGIN = no_effect("there is no remote storage")


def find(name: str) -> Setting | None:
    """The row of a broker option; for a member of a family, a new row."""
    known = BROKER_TABLE.get(name)
    if known is not None:
        return known
    if CLIENT_QUOTA.fullmatch(name):
        return row(name, LONG, -1, Between(-1), MEDIUM, CLUSTER_WIDE, "Bytes per second of one client id.")
    override = LISTENER_OVERRIDE.fullmatch(name)
    if override is not None:
        return _override(name, base_name(override[2]))
    if _PLUGIN_OPTION.fullmatch(name):
        return row(name, STRING, None, None, MEDIUM, CLUSTER_WIDE, "Option of a plugin.")
    if _STORAGE_OPTION.fullmatch(name):
        return row(name, STRING, None, None, MEDIUM, READ_ONLY, "Option of a storage class.", _REMOTE_PLUGIN)
    return None


def base_name(overridden: str) -> str:
    """`plain.sasl.jaas.config` is an override of `sasl.jaas.config`, for one mechanism."""
    return next((option for option in _MECHANISM_OPTIONS if overridden.endswith(option)), overridden)


def _override(name: str, base: str) -> Setting | None:
    setting = BROKER_TABLE.get(base)
    if setting is None:
        return None
    status = _PER_LISTENER if setting.status.support is Support.WORKING else setting.status
    sentence = f"{base} of one listener."
    return row(name, setting.type, setting.default, setting.validator, MEDIUM, PER_BROKER, sentence, status)


def suggestion(name: str) -> str | None:
    """The known name that is most similar to `name`."""
    # Imported on demand: the import takes a tenth of the start, and only a misspelled name needs it.
    import difflib  # noqa: PLC0415

    nearest = difflib.get_close_matches(name, BROKER_TABLE, n=1, cutoff=0.75)
    return nearest[0] if nearest else None
