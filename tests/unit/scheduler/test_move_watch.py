"""What a scheduler says of moves that it took over, and of those that it could not."""

import logging

import pytest

from mainspring.adapters.system import SystemChance, SystemClock
from mainspring.domain.errors import InvalidConfiguration, MainspringError, StoreUnavailable
from mainspring.domain.moves import Move, MoveState
from mainspring.ports.moves import Relieved
from mainspring.scheduler.loop import Loop
from mainspring.scheduler.move_watch import MoveWatch

MOVE = Move((16, 17, 18, 40), 0, 2)


class Known:
    """`ports.moves.Moves` with answers that are known before."""

    def __init__(self, *answers: Relieved | MainspringError | None) -> None:
        self._answers = iter(answers)

    async def relieve(self) -> Relieved | None:
        answer = next(self._answers)
        if isinstance(answer, MainspringError):
            raise answer
        return answer

    async def take_places_back(self) -> int:
        return 0


def watch_of(*answers: Relieved | MainspringError | None) -> MoveWatch:
    return MoveWatch(Known(*answers), Loop(SystemClock(), SystemChance()))


async def test_it_says_what_it_did(caplog: pytest.LogCaptureFixture) -> None:
    watch = watch_of(
        None, Relieved(MOVE, was_decided=False, seconds=2.34), Relieved(MOVE, True, None)
    )
    with caplog.at_level(logging.WARNING, logger="mainspring.scheduler"):
        assert [await watch.run_once() for _ in range(3)] == [0, 1, 1]
    let_go, finished = caplog.messages
    assert let_go.startswith(
        "the move of the partitions 16-18, 40 to shard 3 was left by its process, and they were "
        "refused for 2.3 s; shard 1 keeps them"
    )
    assert "--cancel" in let_go
    assert finished.endswith("it is finished now")


async def test_what_it_cannot_do_ends_no_other_duty(caplog: pytest.LogCaptureFixture) -> None:
    wrong = InvalidConfiguration("no rights")
    watch = watch_of(wrong, wrong, StoreUnavailable("away"), None, wrong)
    with caplog.at_level(logging.WARNING, logger="mainspring.scheduler"):
        assert [await watch.run_once() for _ in range(2)] == [0, 0]
        with pytest.raises(StoreUnavailable):
            await watch.run_once()
        assert [await watch.run_once() for _ in range(2)] == [0, 0]
    assert [
        message.count("cannot be looked after: no rights; `mains") for message in caplog.messages
    ] == [
        1,
        1,
    ]


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (MoveState(MOVE, False, True, None), "from shard 1 to shard 3"),
        (MoveState(MOVE, False, True, 1.26), "and have been refused for 1.3 s"),
        (MoveState(MOVE, False, False, None), "nobody is at it; run `mainspring shards move"),
        (MoveState(MOVE, False, False, 1.0), "nobody is at it; a scheduler lets go of them; run"),
        (MoveState(MOVE, True, False, None), "that is decided, and nobody is at it; a scheduler"),
    ],
)
def test_a_state_is_a_sentence(state: MoveState, said: str) -> None:
    assert str(state).startswith("the partitions 16-18, 40 move from shard 1 to shard 3")
    assert said in str(state)
