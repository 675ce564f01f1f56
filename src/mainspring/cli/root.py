"""The program `mainspring` and the one place where errors become sentences and exit codes."""

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

import click

from mainspring import __version__
from mainspring.cli.exits import EXIT_FAILED, EXIT_STOPPED, EXIT_USAGE, exit_code_of
from mainspring.domain.errors import MainspringError


class Entry(NamedTuple):
    """Where a command is, and its help for the overview, so that it need not be loaded for it."""

    module: str
    attribute: str
    help: str


COMMANDS: Final = {
    "up": Entry("up", "up", "Run everything here: database, scheduler and worker."),
    "demo": Entry("demo", "demo", "Run a real scenario on a throw-away installation."),
    "api": Entry("services", "api", "Serve the API."),
    "worker": Entry("services", "worker", "Run the tasks of an app."),
    "scheduler": Entry("services", "scheduler", "Run schedules, rescue tasks and keep house."),
    "migrate": Entry("migrate", "migrate", "Bring the database to the schema of this version."),
    "doctor": Entry("doctor", "doctor", "Check every configured part."),
    "tasks": Entry("tasks", "tasks", "Submit, look at, cancel and move tasks."),
    "schedules": Entry("schedules", "schedules", "Schedules: cron, intervals and their history."),
    "dead-letters": Entry("dead_letters", "dead_letters", "Tasks that failed for good."),
    "queues": Entry("queues", "queues", "Queues, their switches and limits."),
    "workers": Entry("workers", "workers", "Workers that are alive."),
    "shards": Entry("shards", "shards", "The databases that tasks are divided among."),
    "keys": Entry("keys", "keys", "Keys of the API."),
    "namespaces": Entry("keys", "namespaces", "Tenants and their quotas."),
    "audit": Entry("audit", "audit", "What was done through the API, by whom."),
    "bench": Entry("bench", "bench", "Measure this installation."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of a first use."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        del ctx
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module = importlib.import_module(f"mainspring.cli.{entry.module}")
        command: click.Command = getattr(module, entry.attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the overview from the table, without importing any command."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mainspring")
def program() -> None:
    """Mainspring: a distributed task scheduler on PostgreSQL.

    Exit status: 0 done, 1 failed, 2 wrong usage, 3 not reachable, 4 not found or conflict.
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status. A user's mistake shows no stack trace."""
    try:
        status = program.main(arguments, prog_name="mainspring", standalone_mode=False)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        error.show()
        return EXIT_USAGE
    except (click.Abort, KeyboardInterrupt):
        return EXIT_STOPPED
    except MainspringError as error:
        click.echo(f"error: {error.message}", err=True)
        return exit_code_of(error)
    except BrokenPipeError:
        # Whoever read our output has seen enough; the interpreter's own last flush would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    return status if isinstance(status, int) else 0
