"""`mainspring queues limit`: how much of a queue may run at once, and start in a second."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from mainspring.cli.installations import with_installation
from mainspring.cli.limit_words import limit_cells
from mainspring.cli.options import json_option, settings_of, store_options
from mainspring.cli.output import print_json, print_table
from mainspring.core.installation import Installation
from mainspring.core.limit_view import QueueLimitsView, view_of
from mainspring.domain.errors import InvalidValue
from mainspring.domain.limits import Limit, checked_limit


@click.command()
@click.argument("queue", metavar="Q")
@click.option("--concurrency", type=int, help="So many run at once.")
@click.option("--rate", help="So many start in a span of time: 100/s, 30/m, 500/h or 1000/d.")
@click.option(
    "--burst", type=int, help="So many start at once after a pause; default: the rate of a second."
)
@click.option("--group", "group_key", metavar="KEY", help="Limit this group alone.")
@click.option("--each-group", is_flag=True, help="Limit each group by itself.")
@click.option("--none", "no_limit", is_flag=True, help="Take the limit away.")
@json_option
@store_options
def limit(
    queue: str,
    *,
    group_key: str | None,
    each_group: bool,
    no_limit: bool,
    as_json: bool,
    database_url: str | None,
    data_dir: Path | None,
    **numbers: Any,
) -> None:
    """Limit a queue as a whole, each of its groups, or one group; with no option, show the limits.

    What is not given has no limit. It holds from the next start on; what runs goes on.
    """
    if group_key is not None and each_group:
        message = "--group and --each-group are given together; keep one of them"
        raise InvalidValue(message, field="group")
    given = _given(numbers, no_limit=no_limit)
    if given is None and (group_key is not None or each_group):
        message = "no limit is given; give --concurrency or --rate, or --none to take it away"
        raise InvalidValue(message, field="concurrency")
    settings = settings_of(database_url=database_url, data_dir=data_dir)

    async def work(installation: Installation) -> QueueLimitsView:
        use = installation.lifecycle
        if given is not None and group_key is not None:
            await use.set_group_limit(queue, group_key, None if no_limit else given)
        elif given is not None:
            whole, group = (None, given) if each_group else (given, None)
            await use.set_limits(queue, whole=whole, group=group)
        return view_of(await use.limits(queue))

    shown = with_installation(settings, work)
    if as_json:
        print_json(shown)
    else:
        print_table(("LIMIT OF", "CONCURRENCY", "RATE", "BURST"), _rows(queue, shown))


def _given(numbers: dict[str, Any], *, no_limit: bool) -> Limit | None:
    """Return the limit that the options say; None when they say none."""
    has_numbers = any(number is not None for number in numbers.values())
    if no_limit and has_numbers:
        message = "--none is given with a limit; keep one of them"
        raise InvalidValue(message, field="none")
    return checked_limit(**numbers) if no_limit or has_numbers else None


def _rows(queue: str, shown: QueueLimitsView) -> Iterator[Sequence[object]]:
    yield (f"queue {queue}", *limit_cells(shown.queue))
    yield ("each group", *limit_cells(shown.group))
    for one in shown.groups:
        yield (f"group {one.group_key}", *limit_cells(one.limit))
