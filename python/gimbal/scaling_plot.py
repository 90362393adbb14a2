"""The picture of gimbal.scaling: examples per second and efficiency over ranks, as SVG."""

from __future__ import annotations

import html
import math
from typing import Any, Callable, Dict, List, Tuple

__all__ = ["draw"]

_WIDTH, _HEIGHT, _TOP, _BOTTOM, _LEFT, _PANEL, _GAP = 900, 380, 60, 320, 70, 350, 90
_COLORS = {"weak": "#1f6fb2", "strong": "#c4552d"}
Point = Tuple[float, float]


def draw(rows: List[Dict[str, Any]], title: str) -> str:
    """rows: kind, ranks, examples_per_second, efficiency, and predicted for what was not measured."""
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="12">',
             f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>', _text(_LEFT, 24, title, "start", 14)]
    rates = [row["examples_per_second"] for row in rows]
    low, high = math.floor(math.log10(min(rates))), math.ceil(math.log10(max(rates)))
    high = max(high, low + 1)
    decades = [(10.0**power, f"{10**power:,}" if power >= 0 else str(10.0**power)) for power in range(low, high + 1)]
    parts += _panel(rows, "examples_per_second", _LEFT, "examples per second", decades,
                    lambda rate: (math.log10(rate) - low) / (high - low))
    top = max(1.0, *(row["efficiency"] for row in rows))
    parts += _panel(rows, "efficiency", _LEFT + _PANEL + _GAP, "efficiency against one rank",
                    [(share / 4, f"{share * 25} %") for share in range(int(top * 4) + 1)], lambda share: share / top)
    for index, (kind, color) in enumerate(_COLORS.items()):
        x = _LEFT + index * 260
        parts += [f'<line x1="{x}" y1="366" x2="{x + 24}" y2="366" stroke="{color}" stroke-width="2"/>',
                  _text(x + 30, 370, f"{kind} scaling (dashed: predicted)", "start")]
    return "\n".join([*parts, "</svg>", ""])


def _panel(rows: List[Dict[str, Any]], field: str, left: float, caption: str, ticks: List[Tuple[float, str]],
           height_of: Callable[[float], float]) -> List[str]:
    """One pair of axes with a line for each kind; height_of: value -> 0 to 1."""
    ranks = sorted({row["ranks"] for row in rows})
    steps = max(math.log2(ranks[-1]), 1)

    def place(row: Dict[str, Any]) -> Point:
        return left + math.log2(row["ranks"]) / steps * _PANEL, y_of(row[field])

    def y_of(value: float) -> float:
        return _BOTTOM - height_of(value) * (_BOTTOM - _TOP)

    parts = [_text(left, _TOP - 12, caption, "start")]
    for value, label in ticks:
        y = y_of(value)
        parts += [f'<line x1="{left}" y1="{y:.1f}" x2="{left + _PANEL}" y2="{y:.1f}" stroke="#ddd"/>', _text(left - 6, y + 4, label, "end")]
    for count in ranks:
        parts.append(_text(left + math.log2(count) / steps * _PANEL, _BOTTOM + 18, str(count), "middle"))
    parts.append(_text(left + _PANEL, _BOTTOM + 34, "ranks", "end"))
    for kind, color in _COLORS.items():
        own = [row for row in rows if row["kind"] == kind]
        measured = [row for row in own if not row.get("predicted")]
        parts.append(_line([place(row) for row in measured], color, ""))
        parts.append(_line([place(row) for row in [*measured[-1:], *own[len(measured):]]], color, ' stroke-dasharray="5 4"'))
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in map(place, measured)]
    return parts


def _line(points: List[Point], color: str, style: str) -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{places}" fill="none" stroke="{color}" stroke-width="2"{style}/>'


def _text(x: float, y: float, text: str, anchor: str, size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{html.escape(text)}</text>'
