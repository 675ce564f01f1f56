"""The program of a runner process; workers start it, people do not."""

import argparse

from mainspring.adapters.logs import configure_logs
from mainspring.cli.apps import load_app
from mainspring.config import load
from mainspring.core.registry import Registry
from mainspring.wiring.runner import run_runner
from mainspring.wiring.worker import add_builtin_tasks


def main() -> None:
    """Load the app and execute what the agent sends."""
    parser = argparse.ArgumentParser(prog="python -m mainspring.cli.runner")
    parser.add_argument("--app", default="")
    parser.add_argument("--fd", type=int, required=True)
    arguments = parser.parse_args()
    settings = load()
    configure_logs(settings.log_level, settings.log_format)
    registry = load_app(arguments.app).registry if arguments.app else Registry()
    add_builtin_tasks(registry, settings)
    run_runner(registry, settings, arguments.fd)


if __name__ == "__main__":
    main()
