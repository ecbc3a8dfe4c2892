"""The settings of the program: one table that feeds the command line, the environment and a TOML file.

In: parsed arguments, environment variables, a TOML file. Out: `Settings`, groups of plain values.

    groups.py   the table: every setting with its key, default and help text, in one frozen dataclass per group
    loading.py  command line, environment and file → `Settings`; the options of the command line
"""

from service.base.settings.groups import ENVIRONMENT_PREFIX, SETTINGS, Setting, Settings
from service.base.settings.loading import (
    UNLIMITED,
    InvalidSettingError,
    add_arguments,
    bytes_of,
    check_value,
    config_path,
    keys_of,
    parsed_flag,
    parsed_prefixes,
    parts_of,
    path_map_of,
    read_config,
    settings_of,
)

__all__ = [
    "ENVIRONMENT_PREFIX", "SETTINGS", "UNLIMITED", "InvalidSettingError", "Setting", "Settings",
    "add_arguments", "bytes_of", "check_value", "config_path", "keys_of", "parsed_flag", "parsed_prefixes",
    "parts_of", "path_map_of", "read_config", "settings_of",
]  # fmt: skip
