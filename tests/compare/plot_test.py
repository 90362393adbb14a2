"""The plot is well-formed XML with one line per series and panel."""
import unittest
import xml.etree.ElementTree as xml

import recorded
from comparison import plot

SVG = "{http://www.w3.org/2000/svg}"


class PlotTest(unittest.TestCase):
    def setUp(self):
        figures = recorded.figures((0.15, 3.0, 40.0, 1500.0, 6000.0))
        figures.add(0, "mpich", "peer", {}, finished=False)
        self.tree = xml.fromstring(plot.svg(figures, 2, "A <title> & more", "machine; date", {"openmpi": "openmpi 5.0"}))

    def words(self):
        return [element.text for element in self.tree.iter(f"{SVG}text")]

    def test_every_series_with_figures_has_a_line_in_both_panels(self):
        self.assertEqual(len(list(self.tree.iter(f"{SVG}polyline"))), 2 * 4)
        self.assertNotIn("mpich", self.words())

    def test_title_machine_sizes_and_versions_are_readable_in_it(self):
        for expected in ("A <title> & more", "machine; date", "64 KiB", "openmpi 5.0"):
            self.assertIn(expected, self.words())

    def test_every_point_lies_inside_the_picture(self):
        for line in self.tree.iter(f"{SVG}polyline"):
            for point in line.get("points").split():
                x, y = map(float, point.split(","))
                self.assertTrue(0 <= x <= plot.WIDTH and plot.PANEL_TOP <= y <= plot.PANEL_BOTTOM, point)


if __name__ == "__main__":
    unittest.main()
