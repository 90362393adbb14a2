"""tools/demo_report.py keeps silent about nothing: each broken promise is found."""

import importlib.util
import json
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "tools" / "demo_report.py"
SPEC = importlib.util.spec_from_file_location("demo_report", PROGRAM)
demo_report = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(demo_report)


def good_report(**changes):
    return {
        "hidden": 256, "batch": 256, "epochs": 2, "parameters": 85002, "train_examples": 1438, "epoch_losses": [0.5, 0.05],
        "final_loss": 0.004, "accuracy": 0.97, "examples_per_second": 60000.0, "communication_share": 0.1, "step_ms": 4.0,
        "communication_ms": 0.4, "parameters_equal": True, "gradient_difference": 1e-7, **changes,
    }


def broken_promises(**changes):
    """The promises that are broken when the report of 2 ranks has these changes."""
    floats = {1: [good_report()], 2: [good_report(**changes)]}
    doubles = {1: good_report(), 2: good_report(**changes)}
    rows = demo_report.make_rows(floats, doubles, cpus=2)
    return [promise for promise, kept in demo_report.check_promises(rows, bench_status=0) if not kept]


class Promises(unittest.TestCase):
    def test_a_good_run_breaks_none(self):
        self.assertEqual(broken_promises(), [])

    def test_a_low_accuracy_is_found(self):
        self.assertRegex(" ".join(broken_promises(accuracy=0.949)), "^accuracy")

    def test_unequal_parameters_are_found(self):
        self.assertRegex(" ".join(broken_promises(parameters_equal=False)), "^parameters")

    def test_a_float64_loss_that_is_off_is_found(self):
        self.assertRegex(" ".join(broken_promises(final_loss=0.004 * (1 + 2e-9))), "^float64")

    def test_a_gradient_that_is_off_is_found(self):
        self.assertRegex(" ".join(broken_promises(gradient_difference=2e-6)), "^float32")

    def test_a_failed_benchmark_is_found(self):
        rows = demo_report.make_rows({1: [good_report()]}, {1: good_report()}, cpus=2)
        self.assertFalse(demo_report.check_promises(rows, bench_status=1)[-1][1])


class Rows(unittest.TestCase):
    def test_efficiency_counts_no_more_ranks_than_cpus(self):
        fast = good_report(examples_per_second=90000.0)
        rows = demo_report.make_rows({1: [good_report()], 4: [fast]}, {1: good_report(), 4: fast}, cpus=2)
        self.assertEqual(rows[1]["efficiency"], 0.75)

    def test_throughput_is_the_median_over_rounds_and_accuracy_the_worst(self):
        rounds = [good_report(examples_per_second=speed, accuracy=accuracy)
                  for speed, accuracy in ((10.0, 0.97), (50.0, 0.96), (40.0, 0.98))]
        row = demo_report.make_rows({1: rounds}, {1: good_report()}, cpus=2)[0]
        self.assertEqual((row["examples_per_second"], row["accuracy"]), (40.0, 0.96))


class Program(unittest.TestCase):
    def run_on(self, reports):
        with tempfile.TemporaryDirectory() as directory:
            for name, report in reports.items():
                (Path(directory) / f"{name}.json").write_text(json.dumps(report))
            result = subprocess.run([sys.executable, PROGRAM, directory, "0"], capture_output=True, text=True, check=False)
            picture = Path(directory) / "demo.svg"
            return result, picture.read_text() if picture.exists() else None

    def test_prints_the_table_and_draws_a_picture(self):
        reports = {f"{name}_{ranks}{suffix}": good_report()
                   for ranks in (1, 2) for name, suffix in (("float", "_round1"), ("double", ""))}
        result, picture = self.run_on(reports)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("total batch 256", result.stdout)
        self.assertTrue(xml.etree.ElementTree.fromstring(picture).tag.endswith("svg"))

    def test_fails_when_a_report_is_missing(self):
        result, _ = self.run_on({"float_1_round1": good_report()})
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("double reports of []", result.stderr)


if __name__ == "__main__":
    unittest.main()
