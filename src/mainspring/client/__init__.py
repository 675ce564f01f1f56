"""The verbs of an app over the API: `Client` for coroutines, `SyncClient` for code that blocks.

What is asked, what an answer means and whether to ask again is decided in one place for both
(`exchange`); the two differ in how they wait. Tasks, schedules and so on are the objects of the
API, as dictionaries.
"""

from mainspring.client.blocking import SyncClient
from mainspring.client.coroutines import Client
from mainspring.client.events import Event

__all__ = ["Client", "Event", "SyncClient"]
