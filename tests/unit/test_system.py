import os
from concurrent.futures import ThreadPoolExecutor

from mainspring.adapters.system import SystemIds


def test_ids_of_many_threads_differ_and_each_thread_sees_them_rise() -> None:
    ids = SystemIds()
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: [ids.task_id() for _ in range(2000)], range(4)))
    assert len({one for part in made for one in part}) == 8000
    for part in made:
        assert [one.int >> 16 for one in part] == sorted({one.int >> 16 for one in part})


def test_a_forked_child_makes_ids_of_its_own() -> None:
    ids = SystemIds()
    ids.task_id()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover - it is the child's coverage that is not measured
        os.write(writer, b"".join(ids.task_id().bytes for _ in range(50)))
        os._exit(0)
    os.waitpid(pid, 0)
    theirs = os.read(reader, 800)
    os.close(reader)
    os.close(writer)
    tails = {theirs[start + 6 : start + 16] for start in range(0, 800, 16)}
    assert len(tails) == 50
    assert tails.isdisjoint(ids.task_id().bytes[6:] for _ in range(50))
