"""Goals are marked by the figures: a fast Gimbal is ok, one that is slow anywhere is below at that place and nowhere else."""
import unittest

import recorded
from comparison import goals, report
from comparison.figures import Figures

FAST = (0.15, 3.0, 40.0, 1500.0, 6000.0)


def below(figures, ranks=2):
    return [goal.text for goal in goals.of(figures, ranks) if goal.mark() == "below"]


class GoalsTest(unittest.TestCase):
    def test_a_gimbal_that_is_fast_everywhere_meets_every_goal(self):
        figures = recorded.figures(FAST, registered=(0.15, 2.0, 24.0, 1200.0, 5000.0))
        self.assertEqual(below(figures), [])
        self.assertEqual(len(goals.of(figures, 2)), 6)

    def test_a_gimbal_planted_slow_at_64_kib_is_below_at_its_worst_size_only(self):
        slow = (FAST[0], 9.0, *FAST[2:])
        self.assertEqual(below(recorded.figures(slow)), ["best peer / gimbal, worst size (64 KiB)"])

    def test_a_gimbal_as_fast_as_the_best_peer_is_never_slower_but_not_twice_as_fast(self):
        best_peer = tuple(min(pair) for pair in zip(recorded.INTEL, recorded.OPEN))
        missed = below(recorded.figures(best_peer))
        self.assertNotIn("best peer / gimbal, worst size (8 B)", missed)
        self.assertIn("best peer / gimbal, geometric mean over sizes", missed)
        self.assertIn("best peer / gimbal, 16 MiB", missed)
        self.assertIn("best peer / gimbal, 64 MiB", missed)

    def test_between_hosts_small_messages_are_held_to_thrice_the_peers_rate_and_large_ones_to_its_half_more(self):
        best_peer = tuple(min(pair) for pair in zip(recorded.INTEL, recorded.OPEN))
        factors = (3.5, 3.5, 1.2, 1.5, 1.5)
        fast = recorded.figures(tuple(time / factor for time, factor in zip(best_peer, factors)))
        self.assertEqual([goal.mark() for goal in goals.of(fast, 2, hosts=2)], ["ok", "ok", "ok"])
        slow = recorded.figures(tuple(time / 1.2 for time in best_peer))
        self.assertEqual([goal.mark() for goal in goals.of(slow, 2, hosts=2)], ["below", "ok", "below"])

    def test_ordinary_memory_is_held_to_the_limit_from_256_kib_only(self):
        far = (FAST[0], 5.0, 51.0, *FAST[3:])  # 64 KiB at 0.38 of the limit, 1 MiB at 0.39
        self.assertEqual(below(recorded.figures(far)), ["limit / gimbal from 256 KiB, worst size (1 MiB)"])

    def test_registered_memory_is_held_to_the_limit_from_64_kib(self):
        figures = recorded.figures(FAST, registered=(0.15, 2.5, 24.0, 1200.0, 5000.0))
        self.assertEqual(below(figures), ["limit / gimbal registered from 64 KiB, worst size (64 KiB)"])

    def test_eight_ranks_are_held_to_the_peers_that_finished(self):
        figures = Figures()
        for name, kind, small, large in [("intelmpi", "peer", 15.0, 1200.0), ("gimbal", "gimbal", 12.0, 900.0)]:
            figures.add(0, name, kind, {bytes_: {"bytes": bytes_, "median_us": time} for bytes_, time in
                                        ((8, small), (recorded.MIB, large))})
        figures.add(0, "mpich", "peer", {}, finished=False)
        self.assertEqual(below(figures, ranks=8), ["best peer / gimbal, 1 MiB, more ranks than CPUs"])

    def test_what_was_not_measured_is_no_goal(self):
        figures = Figures()
        figures.add(0, "gimbal", "gimbal", {8: {"bytes": 8, "median_us": 1.0}})
        self.assertEqual(goals.of(figures, 2), [])

    def test_a_busy_process_that_keeps_a_third_of_its_cpu_is_below(self):
        share, collapse = goals.beside_busy(0.33, quiet_mean_us=10.0, busy_mean_us=3000.0)
        self.assertEqual((share.mark(), collapse.mark()), ("below", "ok"))

    def test_an_all_reduce_of_50_ms_beside_a_busy_process_is_a_collapse(self):
        share, collapse = goals.beside_busy(0.5, quiet_mean_us=10.0, busy_mean_us=50_000.0)
        self.assertEqual((share.mark(), collapse.mark()), ("ok", "below"))

    def test_the_report_has_every_mark_and_names_who_did_not_finish(self):
        figures = recorded.figures((FAST[0], 9.0, *FAST[2:]))
        figures.add(0, "mpich", "peer", {}, finished=False)
        text = report.text("heading", figures, goals.of(figures, 2), {"gloo": "its headers are not installed"}, 3)
        self.assertIn("mpich did not finish in 1 of 3 rounds", text)
        self.assertIn("gloo is left out: its headers are not installed", text)
        self.assertRegex(text, r"below +0\.89 +0\.95 +best peer / gimbal, worst size \(64 KiB\)")


if __name__ == "__main__":
    unittest.main()
