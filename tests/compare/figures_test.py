"""Medians and ratios of a comparison."""
import unittest

import recorded
from comparison.figures import Figures, geometric_mean

GIMBAL = (0.15, 4.0, 40.0, 1500.0, 6000.0)


def row(bytes_, time):
    return {bytes_: {"bytes": bytes_, "median_us": time, "mean_us": time}}


class FiguresTest(unittest.TestCase):
    def test_a_time_is_the_median_of_the_rounds(self):
        figures = recorded.figures(GIMBAL)
        self.assertAlmostEqual(figures.median_us("intelmpi", 64 << 10), 1.1 * 8.0)

    def test_a_ratio_is_taken_within_a_round_and_does_not_see_what_disturbed_the_whole_round(self):
        ratio = recorded.figures(GIMBAL).ratio(["intelmpi", "openmpi"], "gimbal", recorded.MIB)
        self.assertAlmostEqual(ratio.median, 76.0 / 40.0)
        self.assertAlmostEqual(ratio.low, ratio.high)

    def test_the_fastest_peer_is_chosen_anew_in_every_round(self):
        figures = Figures()
        for round_number, (one, other) in enumerate([(4.0, 9.0), (9.0, 6.0), (9.0, 8.0)]):
            figures.add(round_number, "one", "peer", row(8, one))
            figures.add(round_number, "other", "peer", row(8, other))
            figures.add(round_number, "gimbal", "gimbal", row(8, 2.0))
        ratio = figures.ratio(figures.series("peer"), "gimbal", 8)
        self.assertEqual((ratio.low, ratio.median, ratio.high), (2.0, 3.0, 4.0))

    def test_a_round_that_a_library_did_not_finish_gives_no_ratio_for_it(self):
        figures = Figures()
        figures.add(0, "mpich", "peer", {}, finished=False)
        figures.add(0, "gimbal", "gimbal", row(8, 2.0))
        figures.add(1, "mpich", "peer", row(8, 5.0))
        figures.add(1, "gimbal", "gimbal", row(8, 2.0))
        self.assertEqual(figures.ratio(["mpich"], "gimbal", 8).median, 2.5)
        self.assertEqual(figures.unfinished, {"mpich": 1})
        self.assertIsNone(figures.ratio(["mpich"], "gimbal", 128))

    def test_the_geometric_mean_of_a_ratio_and_its_inverse_is_one(self):
        self.assertAlmostEqual(geometric_mean([8.0, 1 / 8.0]), 1.0)
        self.assertAlmostEqual(geometric_mean([2.0, 8.0]), 4.0)


if __name__ == "__main__":
    unittest.main()
