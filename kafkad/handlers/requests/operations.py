"""The operations that a client may perform, as bit fields of several responses (bits: AclOperation).

There is no authorizer yet; without one Apache Kafka allows every operation on a resource.
"""

from kafkad.wire.messages.metadata import NOT_REQUESTED as NOT_REQUESTED

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = (1 << code for code in range(3, 9))
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = (1 << code for code in range(9, 13))

TOPIC_OPERATIONS = _READ | _WRITE | _CREATE | _DELETE | _ALTER | _DESCRIBE | _DESCRIBE_CONFIGS | _ALTER_CONFIGS
CLUSTER_OPERATIONS = (
    _CREATE | _ALTER | _DESCRIBE | _CLUSTER_ACTION | _DESCRIBE_CONFIGS | _ALTER_CONFIGS | _IDEMPOTENT_WRITE
)
