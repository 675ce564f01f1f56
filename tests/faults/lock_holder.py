"""A program that takes a lock, says so, and asked for it tries to extend and to release it."""

import asyncio
import sys

from mainspring.config import Settings
from mainspring.ports.locks import Grant
from mainspring.wiring.redis import redis_locks


async def main(url: str, name: str, seconds: float) -> None:
    locks = redis_locks(Settings(redis_url=url))
    grant = await locks.acquire(name, "holder", seconds)
    assert isinstance(grant, Grant)
    print("number", grant.number, flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print("extended", await locks.extend(name, "holder", 60.0), flush=True)
    print("released", await locks.release(name, "holder"), flush=True)
    await locks.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
