"""Charts as SVG, written by hand: bars for a comparison, lines for growth and for time."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

_WIDTH: Final = 760
_FONT: Final = "font-family='system-ui, sans-serif'"
_COLOURS: Final = ("#0b6e99", "#d9730d", "#448361", "#9065b0", "#c14c8a", "#787774", "#cb912f")
_OURS: Final = "#0b6e99"
_THEIRS: Final = "#b8b5ad"
_BAR: Final = 22
_LEFT: Final = 150
_PLOT_HEIGHT: Final = 300


def bars(title: str, values: Mapping[str, float], *, ours: str, unit: str) -> str:
    """Return horizontal bars, the largest first, with our own in colour."""
    ordered = sorted(values.items(), key=lambda item: -item[1])
    largest = max((value for _, value in ordered), default=1.0) or 1.0
    parts: list[str] = []
    for place, (name, value) in enumerate(ordered):
        top = 44 + place * (_BAR + 6)
        length = max(1.0, value / largest * (_WIDTH - _LEFT - 110))
        colour = _OURS if name.startswith(ours) else _THEIRS
        parts += [
            _text(_LEFT - 8, top + 15, name, anchor="end"),
            f"<rect x='{_LEFT}' y='{top}' width='{length:.1f}' height='{_BAR}' fill='{colour}'/>",
            _text(_LEFT + length + 6, top + 15, f"{_number(value)} {unit}"),
        ]
    return _page(title, 56 + len(ordered) * (_BAR + 6), parts)


def lines(
    title: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    across: str,
    up: str,
    log_across: bool = False,
) -> str:
    """Return lines over a common axis; the axis may be logarithmic."""
    points = [point for one in series.values() for point in one]
    if not points:
        return _page(title, 60, [_text(20, 50, "nothing was measured")])
    low = min(x for x, _ in points)
    high = max(x for x, _ in points)
    top = max(y for _, y in points) * 1.1 or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        share = _share(x, low, high, log=log_across)
        return 70 + share * (_WIDTH - 240), 50 + (1 - y / top) * _PLOT_HEIGHT

    parts = _axes(top, up, across)
    for x in sorted({x for x, _ in points}) if len({x for x, _ in points}) <= 8 else (low, high):
        parts.append(_text(place(x, 0)[0], 50 + _PLOT_HEIGHT + 18, _number(x), anchor="middle"))
    for number, (name, one) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in sorted(one)))
        parts.append(f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2'/>")
        if len(one) <= 12:
            parts += [
                f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3' fill='{colour}'/>"
                for x, y in (place(*point) for point in one)
            ]
        parts += [
            (
                f"<rect x='{_WIDTH - 158}' y='{50 + number * 20}' width='12' height='12' "
                f"fill='{colour}'/>"
            ),
            _text(_WIDTH - 140, 60 + number * 20, name),
        ]
    return _page(title, 50 + _PLOT_HEIGHT + 50, parts)


def _axes(top: float, up: str, across: str) -> list[str]:
    bottom = 50 + _PLOT_HEIGHT
    parts = [
        _text(70, 42, up),
        _text((70 + _WIDTH - 170) / 2, bottom + 36, across, anchor="middle"),
    ]
    for step in range(5):
        value = top * step / 4
        y = bottom - _PLOT_HEIGHT * step / 4
        parts += [
            f"<line x1='70' y1='{y:.1f}' x2='{_WIDTH - 170}' y2='{y:.1f}' stroke='#e3e2e0'/>",
            _text(64, y + 4, _number(value), anchor="end"),
        ]
    return parts


def _share(x: float, low: float, high: float, *, log: bool) -> float:
    if high <= low:
        return 0.5
    if log:
        return (math.log(x) - math.log(low)) / (math.log(high) - math.log(low))
    return (x - low) / (high - low)


def _number(value: float) -> str:
    for size, letter in ((1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            shown = value / (size if letter == "M" else 1e3)
            return f"{shown:.1f}".rstrip("0").rstrip(".") + letter
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.1f}"


def _text(x: float, y: float, text: str, *, anchor: str = "start") -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' font-size='12' {_FONT} "
        f"fill='#37352f'>{escape(text)}</text>"
    )


def _page(title: str, height: float, parts: Sequence[str]) -> str:
    head = (
        f"<text x='16' y='24' font-size='15' font-weight='600' {_FONT} fill='#37352f'>"
        f"{escape(title)}</text>"
    )
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='{height:.0f}' "
        f"viewBox='0 0 {_WIDTH} {height:.0f}'>\n"
        f"<rect width='100%' height='100%' fill='#ffffff'/>\n{head}\n"
        + "\n".join(parts)
        + "\n</svg>\n"
    )
