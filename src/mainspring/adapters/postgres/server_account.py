"""Which account the embedded server runs as, and how it reaches a directory it may not walk to."""

import os
import pwd
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from mainspring.domain.errors import EmbeddedServerError

# PostgreSQL refuses to run as root. This account exists everywhere and owns nothing, so that none
# has to be added.
_UNPRIVILEGED = "nobody"


class RunAs(TypedDict, total=False):
    """Arguments for ``subprocess``; empty for the user of this process."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class ServerAccount:
    """The account that the server's processes run as.

    ``uid`` is None when they run as the user of this process.
    """

    uid: int | None = None
    gid: int | None = None

    @property
    def run_as(self) -> RunAs:
        """The arguments for ``subprocess`` that start a child as this account."""
        if self.uid is None or self.gid is None:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, directory: Path) -> None:
        """Make the account the owner of a fresh directory."""
        if self.uid is not None and self.gid is not None:
            os.chown(directory, self.uid, self.gid)

    def path_of(self, directory: Path, fd: int) -> str:
        """Name ``directory``, open as ``fd``, for a child of this account that inherits ``fd``.

        Root may keep the data below a private home that the account cannot walk through. The open
        descriptor leads there all the same, and no directory's mode has to be loosened.
        """
        if self.uid is None or sys.platform != "linux":
            return str(directory)
        return f"/proc/self/fd/{fd}"


def server_account(cluster: Path) -> ServerAccount:
    """Choose the account: this user; for root the owner of existing data, or a powerless one."""
    owner: os.stat_result | None = None
    with suppress(FileNotFoundError):
        owner = cluster.stat()
    if os.geteuid() != 0:
        if owner is not None and owner.st_uid != os.geteuid():
            raise EmbeddedServerError(
                f"the data directory {cluster.parent} belongs to the user with the id "
                f"{owner.st_uid}; start Mainspring as that user (or as root), "
                "or choose another directory"
            )
        return ServerAccount()
    if owner is not None and owner.st_uid != 0:
        return ServerAccount(owner.st_uid, owner.st_gid)
    try:
        entry = pwd.getpwnam(_UNPRIVILEGED)
    except KeyError:
        raise EmbeddedServerError(
            "PostgreSQL must not run as root and this system has no account 'nobody'; "
            "start Mainspring as a normal user or set MAINSPRING_DATABASE_URL"
        ) from None
    return ServerAccount(entry.pw_uid, entry.pw_gid)
