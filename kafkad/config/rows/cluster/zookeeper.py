"""Options of ZooKeeper."""

from kafkad.config.rows.reasons import JVM_CIPHERS, JVM_CLIENT, KRAFT, MIGRATION, PEM, UNCHECKED
from kafkad.core.settings.limits import Between
from kafkad.core.settings.option import Setting
from kafkad.core.settings.rows import BOOLEAN, HIGH, INT, LIST, LOW, MEDIUM, PASSWORD, READ_ONLY, STRING, row

# fmt: off
SETTINGS: tuple[Setting, ...] = (
    row("zookeeper.connect", STRING, None, None, HIGH, READ_ONLY,
        "Addresses of the ZooKeeper ensemble, with an optional chroot. Unset: a single broker without ZooKeeper."),
    row("zookeeper.connection.timeout.ms", INT, None, None, HIGH, READ_ONLY,
        "Timeout of a connection to ZooKeeper; unset: the session timeout."),
    row("zookeeper.session.timeout.ms", INT, 18_000, None, HIGH, READ_ONLY,
        "Session timeout of ZooKeeper."),
    row("zookeeper.max.in.flight.requests", INT, 10, Between(1), HIGH, READ_ONLY,
        "Maximum number of pending requests to ZooKeeper; 500 if unset."),
    row("zookeeper.set.acl", BOOLEAN, False, None, HIGH, READ_ONLY,
        "Restricts changes of nodes in ZooKeeper to brokers, by the name in the keystore's certificate."),
    row("zookeeper.clientCnxnSocket", STRING, None, None, MEDIUM, READ_ONLY,
        "JVM class of the connection to ZooKeeper.", status=JVM_CLIENT),
    row("zookeeper.metadata.migration.enable", BOOLEAN, False, None, HIGH, READ_ONLY,
        "Migrates a cluster from ZooKeeper to KRaft.", status=MIGRATION),
    row("zookeeper.metadata.migration.min.batch.size", INT, 200, Between(1), MEDIUM, READ_ONLY,
        "Minimum batch size of the migration.", status=KRAFT, internal=True),
    row("zookeeper.ssl.cipher.suites", LIST, None, None, LOW, READ_ONLY,
        "Cipher suites of connections to ZooKeeper.", status=JVM_CIPHERS),
    row("zookeeper.ssl.client.enable", BOOLEAN, False, None, MEDIUM, READ_ONLY,
        "Uses TLS to ZooKeeper."),
    row("zookeeper.ssl.crl.enable", BOOLEAN, False, None, LOW, READ_ONLY,
        "Checks revocation lists for ZooKeeper's certificate.", status=UNCHECKED),
    row("zookeeper.ssl.enabled.protocols", LIST, None, None, LOW, READ_ONLY,
        "TLS versions of connections to ZooKeeper."),
    row("zookeeper.ssl.endpoint.identification.algorithm", STRING, "HTTPS", None, LOW, READ_ONLY,
        "Check of ZooKeeper's host name against its certificate; empty: no check."),
    row("zookeeper.ssl.keystore.location", STRING, None, None, MEDIUM, READ_ONLY,
        "PEM file with the key and certificates shown to ZooKeeper."),
    row("zookeeper.ssl.keystore.password", PASSWORD, None, None, MEDIUM, READ_ONLY,
        "Password of that file."),
    row("zookeeper.ssl.keystore.type", STRING, None, None, MEDIUM, READ_ONLY,
        "Format of that file; only PEM can be read."),
    row("zookeeper.ssl.ocsp.enable", BOOLEAN, False, None, LOW, READ_ONLY,
        "Checks the revocation of ZooKeeper's certificate by OCSP.", status=UNCHECKED),
    row("zookeeper.ssl.protocol", STRING, "TLSv1.2", None, LOW, READ_ONLY,
        "TLS version of connections to ZooKeeper."),
    row("zookeeper.ssl.truststore.location", STRING, None, None, MEDIUM, READ_ONLY,
        "PEM file with the certificates trusted for ZooKeeper; unset: those of the system."),
    row("zookeeper.ssl.truststore.password", PASSWORD, None, None, MEDIUM, READ_ONLY,
        "Password of the file with the certificates trusted for ZooKeeper.", status=PEM),
    row("zookeeper.ssl.truststore.type", STRING, None, None, MEDIUM, READ_ONLY,
        "Format of the file with the certificates trusted for ZooKeeper; only PEM can be read."),
)
# fmt: on
