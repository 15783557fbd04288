"""
Read the configuration: from TOML to one frozen tree.

``definition`` defines the keys, ``load`` reads a file and reports every error in it, ``sample`` writes one. Importing
this package must stay cheap: tomllib is imported only when a file is read.
"""

from integrity.config.definition import (
    MAILS_PER_HOUR,
    Alerts,
    CatalogBackup,
    Config,
    ConfiguredCopy,
    ConfiguredRoot,
    Hub,
    HubServer,
    Mail,
    MailTls,
    MailTransport,
    MassChange,
    PaceConfig,
    Presence,
    RootSettings,
    Schedule,
    Web,
)
from integrity.config.load import load_config, parse_config
from integrity.config.places import default_catalog_path, default_config_path, default_runtime_folder

__all__ = [
    "MAILS_PER_HOUR",
    "Alerts",
    "CatalogBackup",
    "Config",
    "ConfiguredCopy",
    "ConfiguredRoot",
    "Hub",
    "HubServer",
    "Mail",
    "MailTls",
    "MailTransport",
    "MassChange",
    "PaceConfig",
    "Presence",
    "RootSettings",
    "Schedule",
    "Web",
    "default_catalog_path",
    "default_config_path",
    "default_runtime_folder",
    "load_config",
    "parse_config",
]
