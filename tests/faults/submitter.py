"""A program that submits tasks as fast as they are acknowledged and logs each answer.

``submitter.py LOG CALLERS KIND``, ended by a signal. A record is written before a submission
("ask") and after its answer: "ok", "unknown" (it says itself that the task may exist) or "refused".
"""

import asyncio
import sys
import time

from faults.handlers import app, work, write_line
from mainspring import MainspringError, OutcomeUnknown
from mainspring.domain.task import NewTask

BATCH = 500


async def say(path: str, event: str, tasks: list[NewTask], error: str = "") -> None:
    ids = [str(task.id) for task in tasks]
    write_line(path, {"event": event, "tasks": ids, "at": time.time(), "error": error})


async def submit_forever(path: str, caller: int, kind: str) -> None:
    number = 0
    while True:
        number += 1
        if kind == "batch":
            tasks = [work.build(seconds=0.0) for _ in range(BATCH)]
        elif kind == "keyed":
            tasks = [work.options(key=f"{caller}-{number}").build()]
        else:
            tasks = [work.build()]
        await say(path, "ask", tasks)
        try:
            if kind == "batch":
                await app.submit_many(tasks)
            else:
                await app.submit(tasks[0])
        except OutcomeUnknown as error:
            await say(path, "unknown", tasks, error.code)
        except MainspringError as error:
            await say(path, "refused", tasks, error.code)
        else:
            await say(path, "ok", tasks)


async def main() -> None:
    path, callers, kind = sys.argv[1:]
    await asyncio.gather(*(submit_forever(path, caller, kind) for caller in range(int(callers))))


if __name__ == "__main__":
    asyncio.run(main())
