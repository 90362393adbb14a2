"""python -m gimbal.scaling: a table and a picture of a script's runs, and what is said of a script that does not report."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

from gimbal import scaling

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "numpy_digits.py"


def scaled(folder, *arguments):
    return subprocess.run([sys.executable, "-m", "gimbal.scaling", "--ranks", "1,2", *arguments], cwd=folder, capture_output=True,
                          text=True, timeout=100)


class Scaling(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            cls.ended = scaled(folder, "--predict", "4", str(EXAMPLE), "--epochs", "1")
            if cls.ended.returncode:
                raise AssertionError(cls.ended.stdout + cls.ended.stderr)
            cls.rows = json.loads(pathlib.Path(folder, "scaling.json").read_text())["rows"]
            cls.text = pathlib.Path(folder, "scaling.txt").read_text()
            cls.picture = xml.etree.ElementTree.parse(pathlib.Path(folder, "scaling.svg"))

    def test_has_a_row_for_each_run_and_each_prediction(self):
        predicted_ranks = 4 * max(row["ranks"] for row in self.rows if not row.get("predicted"))
        have = [(row["kind"], row["ranks"], row["batch"]) for row in self.rows]
        self.assertEqual(have[:4], [("weak", 1, 64), ("weak", 2, 128), ("strong", 1, 64), ("strong", 2, 64)])
        self.assertEqual([row["kind"] for row in self.rows[4:]], ["weak", "strong"])
        self.assertLessEqual(self.rows[4]["ranks"], predicted_ranks)

    def test_shares_one_batch_under_strong_scaling_so_that_the_loss_does_not_drift(self):
        self.assertLess(abs(self.rows[3]["drift"]), 1e-9)
        self.assertEqual(self.rows[3]["examples"], self.rows[2]["examples"])

    def test_compares_with_one_rank(self):
        alone, row = self.rows[0], self.rows[1]
        self.assertAlmostEqual(row["efficiency"], row["examples_per_second"] / (2 * alone["examples_per_second"]))
        self.assertAlmostEqual(row["exposed_share"], row["exposed_seconds"] / row["seconds"])

    def test_names_model_batch_and_machine(self):
        self.assertRegex(self.text, r"^digits, 64-256-10; 64 examples a step with one rank; \d+ CPUs, ")
        self.assertEqual(self.text, self.ended.stdout)

    def test_draws_measured_and_predicted_lines_in_both_panels(self):
        lines = self.picture.findall("{http://www.w3.org/2000/svg}polyline")
        self.assertEqual([("stroke-dasharray" in line.attrib) for line in lines], [False, True] * 4)


class AScript(unittest.TestCase):
    def test_that_reports_nothing_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "silent.py")
            script.write_text("print('trained')\n")
            ended = scaled(folder, str(script))
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("ended with status 0 and 0 reports; it must be 0 and 1", ended.stderr)

    def test_that_forgets_a_field_is_told_which(self):
        with self.assertRaisesRegex(ValueError, "here loss is missing or too much"):
            scaling.report(model="", batch=1, examples=1, seconds=1, steps=1, exposed_seconds=0, gradient_bytes=1)


if __name__ == "__main__":
    unittest.main()
