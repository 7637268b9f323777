"""Options of TLS."""

from kafkad.config.rows.reasons import JVM, TLS
from kafkad.core.settings.limits import OneOf
from kafkad.core.settings.option import Setting
from kafkad.core.settings.rows import BOOLEAN, CLASS, LIST, LOW, MEDIUM, PASSWORD, PER_BROKER, READ_ONLY, STRING, row

# fmt: off
SETTINGS: tuple[Setting, ...] = (
    row("ssl.allow.dn.changes", BOOLEAN, False, None, LOW, READ_ONLY,
        "Allows a renewed certificate to have another subject.", status=TLS),
    row("ssl.allow.san.changes", BOOLEAN, False, None, LOW, READ_ONLY,
        "Allows a renewed certificate to have other alternative names.", status=TLS),
    row("ssl.cipher.suites", LIST, (), None, MEDIUM, PER_BROKER,
        "Cipher suites that are offered.", status=TLS),
    row("ssl.client.auth", STRING, "none", OneOf(("required", "requested", "none")), MEDIUM, PER_BROKER,
        "Whether clients have to show a certificate.", status=TLS),
    row("ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3"), None, MEDIUM, PER_BROKER,
        "TLS versions that are offered.", status=TLS),
    row("ssl.endpoint.identification.algorithm", STRING, "https", None, LOW, PER_BROKER,
        "How a server's name is checked against its certificate.", status=TLS),
    row("ssl.engine.factory.class", CLASS, None, None, LOW, PER_BROKER,
        "JVM class that creates TLS engines.", status=JVM),
    row("ssl.key.password", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "Password of the private key.", status=TLS),
    row("ssl.keymanager.algorithm", STRING, "SunX509", None, MEDIUM, PER_BROKER,
        "Java's algorithm for key managers.", status=TLS),
    row("ssl.keystore.certificate.chain", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "Certificate chain in PEM form.", status=TLS),
    row("ssl.keystore.key", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "Private key in PEM form.", status=TLS),
    row("ssl.keystore.location", STRING, None, None, MEDIUM, PER_BROKER,
        "File with the broker's key and certificate.", status=TLS),
    row("ssl.keystore.password", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "Password of the key file.", status=TLS),
    row("ssl.keystore.type", STRING, "JKS", None, MEDIUM, PER_BROKER,
        "Format of the key file.", status=TLS),
    row("ssl.principal.mapping.rules", STRING, "DEFAULT", None, LOW, READ_ONLY,
        "Rules that map a certificate's subject to a user name.", status=TLS),
    row("ssl.protocol", STRING, "TLSv1.3", None, MEDIUM, PER_BROKER,
        "TLS version of outgoing connections.", status=TLS),
    row("ssl.provider", STRING, None, None, MEDIUM, PER_BROKER,
        "Java's security provider.", status=TLS),
    row("ssl.secure.random.implementation", STRING, None, None, LOW, PER_BROKER,
        "Java's source of random numbers.", status=TLS),
    row("ssl.trustmanager.algorithm", STRING, "PKIX", None, MEDIUM, PER_BROKER,
        "Java's algorithm for trust managers.", status=TLS),
    row("ssl.truststore.certificates", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "Trusted certificates in PEM form.", status=TLS),
    row("ssl.truststore.location", STRING, None, None, MEDIUM, PER_BROKER,
        "File with the trusted certificates.", status=TLS),
    row("ssl.truststore.password", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "Password of the file with the trusted certificates.", status=TLS),
    row("ssl.truststore.type", STRING, "JKS", None, MEDIUM, PER_BROKER,
        "Format of the file with the trusted certificates.", status=TLS),
)
# fmt: on
