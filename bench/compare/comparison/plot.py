"""An SVG of a comparison: time and bus bandwidth over message size, one line per series."""
import math
from xml.sax.saxutils import escape

from . import goals

WIDTH, HEIGHT = 1180, 560
PANEL_TOP, PANEL_BOTTOM = 92, 430
PANELS = ((78, 560), (668, 1150))  # left and right edge of each
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8c564b", "#7f7f00", "#9467bd")
GIMBAL_COLOUR, LIMIT_COLOUR = "#d62728", "#555555"
TEXT = 'font-family="Helvetica, Arial, sans-serif"'


class Axis:
    """A logarithmic scale from values to pixels."""

    def __init__(self, low, high, first_pixel, last_pixel):
        self.low, self.high = math.log10(low), math.log10(max(high, low * 1.0001))
        self.first, self.last = first_pixel, last_pixel

    def pixel(self, value):
        return self.first + (math.log10(value) - self.low) / (self.high - self.low) * (self.last - self.first)


def decades(low, high):
    return [10.0**power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]


def text(x, y, words, size=12, anchor="middle", colour="#333", weight="normal", extra=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" {TEXT} font-size="{size}" text-anchor="{anchor}" fill="{colour}" '
            f'font-weight="{weight}"{extra}>{escape(words)}</text>')


def line(x1, y1, x2, y2, colour, width=1.0, dashes=""):
    dash = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"{dash}/>'


def styles(figures):
    """series -> (colour, width, dashes): the limit dashed, Gimbal's own way bold."""
    colours = iter(COLOURS * (1 + len(figures.kinds) // len(COLOURS)))
    chosen = {}
    for series in figures.series("limit") + figures.series("peer") + figures.series("gimbal"):
        if figures.kinds[series] == "limit":
            chosen[series] = (LIMIT_COLOUR, 2.0, "6 4")
        elif series == "gimbal":
            chosen[series] = (GIMBAL_COLOUR, 3.2, "")
        else:
            chosen[series] = (next(colours), 1.8, "")
    return chosen


def mark_text(value, unit):
    """An axis mark; times have the unit that fits."""
    if unit == "us":
        factor, name = next((pair for pair in ((1e6, "s"), (1e3, "ms"), (1, "us")) if value >= pair[0]), (1e-3, "ns"))
        return f"{value / factor:,.0f} {name}"
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def panel(edges, title, unit, sizes, curves, style):
    """curves: series -> [(bytes, value)]. Returns SVG elements."""
    left, right = edges
    values = [value for points in curves.values() for _, value in points]
    marks = decades(min(values), max(values))
    x_axis = Axis(sizes[0], sizes[-1], left, right)
    y_axis = Axis(marks[0], marks[-1], PANEL_BOTTOM, PANEL_TOP)
    parts = [f'<rect x="{left}" y="{PANEL_TOP}" width="{right - left}" height="{PANEL_BOTTOM - PANEL_TOP}" fill="#fafafa"/>']
    for mark in marks:
        y = y_axis.pixel(mark)
        parts.append(line(left, y, right, y, "#dcdcdc"))
        parts.append(text(left - 8, y + 4, mark_text(mark, unit), anchor="end"))
    for bytes_ in sizes:
        x = x_axis.pixel(bytes_)
        parts.append(line(x, PANEL_TOP, x, PANEL_BOTTOM, "#ececec"))
        turned = f' transform="rotate(-40 {x:.1f} {PANEL_BOTTOM + 16})"'
        parts.append(text(x, PANEL_BOTTOM + 16, goals.size_text(bytes_), size=11, anchor="end", extra=turned))
    parts.append(f'<rect x="{left}" y="{PANEL_TOP}" width="{right - left}" height="{PANEL_BOTTOM - PANEL_TOP}" fill="none" '
                 'stroke="#888"/>')
    parts.append(text((left + right) / 2, PANEL_TOP - 10, title, size=13, weight="bold"))
    for series, points in curves.items():
        colour, width, dashes = style[series]
        path = " ".join(f"{x_axis.pixel(bytes_):.1f},{y_axis.pixel(value):.1f}" for bytes_, value in points)
        dash = f' stroke-dasharray="{dashes}"' if dashes else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"{dash}/>')
        parts += [f'<circle cx="{x_axis.pixel(bytes_):.1f}" cy="{y_axis.pixel(value):.1f}" r="{1.2 + width / 2:.1f}" '
                  f'fill="{colour}"><title>{escape(series)}, {goals.size_text(bytes_)}: {value:.3g} {unit}</title></circle>'
                  for bytes_, value in points]
    return parts


def legend(style, labels):
    parts = []
    columns = 4
    for index, series in enumerate(style):
        colour, width, dashes = style[series]
        x = PANELS[0][0] + (index % columns) * 272
        y = PANEL_BOTTOM + 76 + (index // columns) * 22
        parts.append(line(x, y - 4, x + 30, y - 4, colour, width, dashes))
        parts.append(text(x + 38, y, labels.get(series, series), anchor="start", size=13))
    return parts


def svg(figures, ranks, title, subtitle, labels):
    """labels: series -> what the legend calls it."""
    sizes = figures.sizes()
    style = styles(figures)
    times = {}
    for series in style:
        points = [(bytes_, figures.median_us(series, bytes_)) for bytes_ in sizes]
        times[series] = [(bytes_, time) for bytes_, time in points if time is not None]
    times = {series: points for series, points in times.items() if points}
    traffic = 2 * (ranks - 1) / ranks
    bandwidths = {series: [(bytes_, traffic * bytes_ / time / 1000) for bytes_, time in points]
                  for series, points in times.items()}
    height = HEIGHT + 22 * max(0, (len(style) - 1) // 4 - 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        text(PANELS[0][0], 32, title, size=19, anchor="start", colour="#111", weight="bold"),
        text(PANELS[0][0], 54, subtitle, size=12, anchor="start", colour="#666"),
        *panel(PANELS[0], "Time, lower is better", "us", sizes, times, style),
        *panel(PANELS[1], "Bus bandwidth in GB/s, higher is better", "GB/s", sizes, bandwidths, style),
        *legend({series: style[series] for series in times}, labels),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"
