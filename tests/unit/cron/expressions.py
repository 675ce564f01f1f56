"""Random valid expressions over the whole grammar."""

from random import Random

_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]


def _cased(random: Random, text: str) -> str:
    return random.choice([text, text.lower(), text.capitalize()])


def _plain(random: Random, low: int, high: int, size: int, names: list[str] | None = None) -> str:
    def value(number: int) -> str:
        if names and random.random() < 0.4:
            return _cased(random, names[(number - low) % len(names)])
        return str(number).zfill(random.choice([1, 1, 1, 2]))

    def step() -> str:
        return f"/{random.randint(1, size if random.random() < 0.3 else min(size, 12))}"

    kind = random.random()
    first, second = random.randint(low, high), random.randint(low, high)
    if kind < 0.15:
        return "*"
    if kind < 0.3:
        return f"*{step()}"
    if kind < 0.65:
        return value(first)
    if kind < 0.75:
        return f"{value(first)}{step()}"
    if size != 7 and first > second:
        first, second = second, first
    tail = step() if random.random() < 0.5 else ""
    return f"{value(first)}-{value(second)}{tail}"


def _dom(random: Random) -> str:
    kind = random.random()
    if kind < 0.6:
        return _plain(random, 1, 31, 31)
    special = random.choice(
        [
            "L",
            "LW",
            f"{random.randint(1, 31)}W",
            f"L-{random.randint(1, 30)}",
            f"L-{random.randint(1, 30)}W",
        ]
    )
    return _cased(random, special)


def _dow(random: Random) -> str:
    kind = random.random()
    if kind < 0.6:
        return _plain(random, 0, 7, 7, [*_DAYS, "SUN"])
    day = random.randint(0, 7)
    name = str(day) if random.random() < 0.5 else _cased(random, _DAYS[day % 7])
    if kind < 0.8:
        return f"{name}{random.choice('Ll')}"
    return f"{name}#{random.randint(1, 5)}"


def _listed(random: Random, make: object) -> str:
    assert callable(make)
    count = random.choice([1, 1, 1, 1, 2, 2, 3])
    return ",".join(str(make(random)) for _ in range(count))


def random_expression(random: Random) -> str:
    fields = [
        _listed(random, lambda r: _plain(r, 0, 59, 60)),
        _listed(random, lambda r: _plain(r, 0, 23, 24)),
        "*" if random.random() < 0.3 else _listed(random, _dom),
        "*" if random.random() < 0.6 else _listed(random, lambda r: _plain(r, 1, 12, 12, _MONTHS)),
        "*" if random.random() < 0.3 else _listed(random, _dow),
    ]
    if random.random() < 0.1:
        fields = [random.choice([field, "?"]) for field in fields]
    return random.choice([" ", "  ", "\t"]).join(fields)
