"""A whole cluster on this machine, from wheels alone: `make up-cluster`.

python -m tools.cluster                  in the foreground, until Ctrl-C
python -m tools.cluster --check          under load, with one of each killed; exit status 0 or 1
python -m tools.cluster --idle 30        how much processor time each process takes
"""

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tools.cluster.binaries import Missing
from tools.cluster.check import Check
from tools.cluster.http import Broken
from tools.cluster.idle import SHARE_MAX, measure
from tools.cluster.load import Refused
from tools.cluster.programs import NotStarted
from tools.cluster.running import APP, Cluster, Options, Sizes

from mainspring.cli.output import print_table
from mainspring.domain.errors import MainspringError

_SETTLE_SECONDS = 5.0
_EXIT_STOPPED = 130


def tell(text: str) -> None:
    """Tell the person, not the pipe."""
    print(text, file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="make up-cluster", description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="break it under load, judge, and end")
    parser.add_argument("--idle", type=float, metavar="SECONDS", help="measure it at rest, and end")
    parser.add_argument("--rate", type=float, default=200.0, help="tasks a second of --check")
    parser.add_argument("--app", default=APP, help="the app of the workers, as MODULE:APP")
    parser.add_argument("--data", type=Path, help="an empty directory that is kept")
    parser.add_argument("--no-redis", action="store_true", help="workers ask the databases")
    for field, default in Sizes()._asdict().items():
        parser.add_argument(f"--{field}", type=int, default=default, metavar="N")
    return parser.parse_args()


async def main(given: argparse.Namespace) -> int:
    """Start it, do what was asked for, and end it."""
    loop = asyncio.get_running_loop()
    main_task = asyncio.current_task()
    assert main_task is not None
    for sign in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(sign, main_task.cancel)
    directory = Path(tempfile.mkdtemp(prefix="mainspring-")) if given.data is None else given.data
    keeps = given.data is not None
    cluster = Cluster(directory.resolve(), _options(given), tell)
    status = 1
    try:
        status = await _use(cluster, given)
    except (NotStarted, Missing, Refused, Broken, MainspringError, TimeoutError) as error:
        keeps = True
        tell(f"error: {error}; the logs are kept in {directory}")
    except asyncio.CancelledError:
        status = _EXIT_STOPPED if given.check or given.idle else 0
        tell("ending; a second Ctrl-C kills")
    finally:
        failed = await _end(cluster)
        if failed is None:
            status = _EXIT_STOPPED
        elif failed:
            status, keeps = 1, True
            tell(f"{'; '.join(failed)}; the logs are kept in {directory}")
        if not keeps:
            shutil.rmtree(directory, ignore_errors=True)
    return status


async def _use(cluster: Cluster, given: argparse.Namespace) -> int:
    began = time.monotonic()
    await cluster.start()
    tell(f"ready after {time.monotonic() - began:.1f} s")
    if given.idle:
        return await _idle(cluster, given.idle)
    if given.check:
        return await _check(cluster, given.rate)
    _show(cluster)
    await cluster.keep()
    return 0


async def _check(cluster: Cluster, rate: float) -> int:
    results = await Check(cluster, rate, tell).results()
    print_table(
        ("CHECK", "EXPECTED", "OK", "OBSERVED"),
        ((one.check, one.expected, "yes" if one.ok else "NO", one.observed) for one in results),
    )
    is_well = all(one.ok for one in results)
    tell("all is well" if is_well else "something is wrong")
    return 0 if is_well else 1


async def _idle(cluster: Cluster, seconds: float) -> int:
    await asyncio.sleep(_SETTLE_SECONDS)
    used = await measure(cluster, seconds)
    print_table(
        ("PROCESS", "PID", "MB", "OF A CORE"),
        ((one.name, one.pid, f"{one.megabytes:.0f}", f"{one.share:.1%}") for one in used),
    )
    return 0 if all(one.share <= SHARE_MAX for one in used) else 1


def _show(cluster: Cluster) -> None:
    print_table(
        ("PART", "PID", "WHERE"), ((part.name, part.pid, part.place) for part in cluster.parts)
    )
    print(f"key:   {cluster.key}")
    print(f"logs:  {cluster.directory / 'logs'}")
    print(f"shell: . {cluster.environment_file}")
    print("ready; Ctrl-C ends it", flush=True)


async def _end(cluster: Cluster) -> list[str] | None:
    """End it in order and return what did not end well; when asked again kill it, None."""
    ending = asyncio.ensure_future(cluster.stop())
    try:
        return await asyncio.shield(ending)
    except asyncio.CancelledError:
        ending.cancel()
        with suppress(asyncio.CancelledError):
            await ending
        await cluster.end()
        return None


def _options(given: argparse.Namespace) -> Options:
    sizes = Sizes(**{field: getattr(given, field) for field in Sizes._fields})
    options = Options(sizes=sizes, app=given.app, redis=not given.no_redis)
    if not given.check:
        return options
    # Short leases, so that a death is noticed within the patience of who waits for the verdict.
    return options._replace(grpc=False, lease_seconds=4.0, ttl_seconds=3.0)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(arguments())))
