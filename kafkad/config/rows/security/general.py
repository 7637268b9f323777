"""Options of authorization, principals and delegation tokens."""

from kafkad.config.rows.reasons import AUTHORIZER, ENCODER, JVM, SECURITY, TOKENS
from kafkad.core.settings.limits import Between
from kafkad.core.settings.option import Setting
from kafkad.core.settings.rows import (
    BOOLEAN,
    CLASS,
    INT,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    PER_BROKER,
    READ_ONLY,
    STRING,
    row,
)

# fmt: off
SETTINGS: tuple[Setting, ...] = (
    row("authorizer.class.name", STRING, "", None, LOW, READ_ONLY,
        "Class that decides what each principal may do.", status=AUTHORIZER),
    row("super.users", STRING, None, None, MEDIUM, READ_ONLY,
        "Principals that may do everything.", status=AUTHORIZER),
    row("allow.everyone.if.no.acl.found", BOOLEAN, False, None, LOW, READ_ONLY,
        "Allows everything on a resource that has no access rule.", status=SECURITY),
    row("principal.builder.class", CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        None, MEDIUM, PER_BROKER,
        "JVM class that determines the principal of a connection.", status=SECURITY),
    row("security.providers", STRING, None, None, LOW, READ_ONLY,
        "JVM classes that add security algorithms.", status=JVM),
    row("connections.max.reauth.ms", LONG, 0, None, MEDIUM, READ_ONLY,
        "How long a login lasts before a client has to repeat it.", status=SECURITY),
    row("delegation.token.master.key", PASSWORD, None, None, MEDIUM, READ_ONLY,
        "Old name of delegation.token.secret.key.", status=TOKENS),
    row("delegation.token.secret.key", PASSWORD, None, None, MEDIUM, READ_ONLY,
        "Secret that delegation tokens are signed with.", status=TOKENS),
    row("delegation.token.expiry.check.interval.ms", LONG, 3_600_000, Between(1), LOW, READ_ONLY,
        "Interval of checks for expired tokens.", status=TOKENS),
    row("delegation.token.expiry.time.ms", LONG, 86_400_000, Between(1), MEDIUM, READ_ONLY,
        "Lifetime of a token without renewal.", status=TOKENS),
    row("delegation.token.max.lifetime.ms", LONG, 604_800_000, Between(1), MEDIUM, READ_ONLY,
        "Maximum lifetime of a token.", status=TOKENS),
    row("password.encoder.secret", PASSWORD, None, None, MEDIUM, READ_ONLY,
        "Secret for passwords that are kept in the store.", status=ENCODER),
    row("password.encoder.old.secret", PASSWORD, None, None, MEDIUM, READ_ONLY,
        "Previous secret for passwords that are kept in the store.", status=ENCODER),
    row("password.encoder.cipher.algorithm", STRING, "AES/CBC/PKCS5Padding", None, LOW, READ_ONLY,
        "Cipher for passwords that are kept in the store.", status=ENCODER),
    row("password.encoder.iterations", INT, 4096, Between(1024), LOW, READ_ONLY,
        "Rounds of the key derivation for stored passwords.", status=ENCODER),
    row("password.encoder.key.length", INT, 128, Between(8), LOW, READ_ONLY,
        "Key length for stored passwords.", status=ENCODER),
    row("password.encoder.keyfactory.algorithm", STRING, None, None, LOW, READ_ONLY,
        "Key derivation for stored passwords.", status=ENCODER),
)
# fmt: on
