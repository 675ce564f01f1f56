"""What killed runners leave behind where nobody else buries it.

The first process of a container gets every process whose parent has died, and those that have ended
stay in the table of processes until it asks for them. A worker that is this process would fill the
table over the days, with the commands of every runner that it had to end.
"""

import os
from collections.abc import Collection
from typing import Final

FIRST_PID: Final = 1


def bury_orphans(ours: Collection[int]) -> int:
    """Ask for the children that have ended, but not for `ours`, whose end somebody else looks at;
    returns how many there were.
    """
    count = 0
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return count
        if found is None or found.si_pid in ours:
            # Those behind one of ours have their turn when that has had its own.
            return count
        os.waitpid(found.si_pid, 0)
        count += 1
