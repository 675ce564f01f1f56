"""Everything that one event loop of a process uses to work with tasks."""

from mainspring.core.lifecycle import Lifecycle
from mainspring.core.routed_commits import commits_on
from mainspring.core.schedules import Schedules
from mainspring.core.submission import Submissions
from mainspring.core.waiting import Waiting
from mainspring.ports.clock import Clock, IdSource
from mainspring.ports.store import Store


class Session:
    """An open store with the use cases on it. Belongs to the event loop it was opened in."""

    def __init__(
        self, store: Store, clock: Clock, ids: IdSource, submit_timeout_seconds: float = 10.0
    ) -> None:
        self.store = store
        self.clock = clock
        self.schedules = Schedules(store, clock, ids)
        self.lifecycle = Lifecycle(store)
        self.waiting = Waiting(store, clock)
        self.submissions = Submissions(commits_on(store, clock, submit_timeout_seconds))

    def missing(self) -> tuple[str, ...]:
        """Return the parts of the store that do not answer."""
        return self.store.missing()

    async def close(self) -> None:
        """Let what is on its way arrive, then release the store. Safe to call twice."""
        await self.waiting.close()
        await self.submissions.close()
        await self.store.close()
