"""The settings that say which API commands use in the place of a database."""

import dataclasses
from typing import Annotated

from mainspring.config.facts import Facts


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class RemoteSettings:
    """Part of `Settings`."""

    api_url: Annotated[
        str,
        Facts(
            "API that commands use in the place of a database, such as `https://host:8400`. "
            "`--database-url` and `--data` go past it"
        ),
    ] = ""
    api_key: Annotated[str, Facts("Key for the API at `api_url`", secret=True)] = ""
    api_ca_file: Annotated[
        str,
        Facts(
            "PEM file with the authorities that are believed for `api_url`. Empty: those of the "
            "system"
        ),
    ] = ""
