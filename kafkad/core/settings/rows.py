"""Short names and one constructor for rows of the settings table.

All arguments are positional, so that the rows of a domain read as a table: name, type, default, limits, importance,
update mode, one sentence.
"""

from kafkad.core.settings.option import WORKING, Importance, Setting, SettingType, Status, UpdateMode, Validator
from kafkad.core.settings.values import Value

BOOLEAN = SettingType.BOOLEAN
STRING = SettingType.STRING
INT = SettingType.INT
SHORT = SettingType.SHORT
LONG = SettingType.LONG
DOUBLE = SettingType.DOUBLE
LIST = SettingType.LIST
CLASS = SettingType.CLASS
PASSWORD = SettingType.PASSWORD

HIGH = Importance.HIGH
MEDIUM = Importance.MEDIUM
LOW = Importance.LOW

READ_ONLY = UpdateMode.READ_ONLY
PER_BROKER = UpdateMode.PER_BROKER
CLUSTER_WIDE = UpdateMode.CLUSTER_WIDE

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


def row(
    name: str,
    setting_type: SettingType,
    default: Value,
    validator: Validator | None,
    importance: Importance,
    update_mode: UpdateMode,
    documentation: str,
    status: Status = WORKING,
    internal: bool = False,
) -> Setting:
    return Setting(
        name=name,
        type=setting_type,
        default=default,
        validator=validator,
        importance=importance,
        update_mode=update_mode,
        documentation=documentation,
        status=status,
        internal=internal,
    )
