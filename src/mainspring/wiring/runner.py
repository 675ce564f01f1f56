"""A runner process: executes handlers for the agent that started it."""

from mainspring.adapters.system import SystemClock
from mainspring.config import Settings
from mainspring.core.registry import Registry
from mainspring.wiring.locks import handler_locker
from mainspring.wiring.transactions import caller_transactions
from mainspring.worker.runner import runner_main


def run_runner(registry: Registry, settings: Settings, fd: int) -> None:
    """Execute attempts that arrive on the socket `fd` until the agent is gone."""
    transactions = caller_transactions(lambda: settings)
    runner_main(registry, transactions, SystemClock(), fd, lambda: handler_locker(settings))
