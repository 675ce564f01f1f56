"""The simulation bites: without any one of the store's guards some seed goes wrong."""

import pytest

from mutants import GUARDS, Mutant, plant
from simulation.play import play

SEEDS = 80


@pytest.mark.slow
@pytest.mark.parametrize("mutant", GUARDS, ids=str)
def test_some_seed_finds(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(mutant, monkeypatch)
    assert any(goes_wrong(seed) for seed in range(SEEDS))


def goes_wrong(seed: int) -> bool:
    try:
        return bool(play(seed).violations)
    except Exception:  # noqa: BLE001 - a broken store may break whoever uses it
        return True
