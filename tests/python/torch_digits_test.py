"""examples/torch_digits.py: whatever averages the gradients, training is that of one process on the joined batch."""

import json
import pathlib
import subprocess
import sys
import unittest

try:
    import torch
except ImportError as error:
    print(f"skipped: no torch here ({error}); tools/install_dependencies installs Debian's")
    sys.exit(77)

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "torch_digits.py"
WAYS = ["gloo", "gimbal", "hook", "synchronizer"]
GIMBAL_RUN = [sys.executable, "-m", "gimbal.run", "-n"]
# Debian's torchrun of 1.13 fails under Debian's Python 3.11, whatever it is to run.
TORCHRUN = GIMBAL_RUN if torch.__version__.startswith("1.") else [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node"]


def reports(launcher, ranks, *arguments):
    """Rank 0's report for each way."""
    ended = subprocess.run([*launcher, str(ranks), EXAMPLE, *arguments], capture_output=True, text=True, timeout=250)
    found = [json.loads(line[line.index("{"):]) for line in ended.stdout.splitlines() if "averaging" in line]
    if ended.returncode or [report["averaging"] for report in found] != WAYS:
        raise AssertionError(f"status {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return found


class Digits(unittest.TestCase):
    def test_are_learnt_as_one_process_does(self):
        for launcher, ranks in ((GIMBAL_RUN, 1), (TORCHRUN, 2), (GIMBAL_RUN, 4)):
            for report in reports(launcher, ranks):
                with self.subTest(ranks=ranks, averaging=report["averaging"]):
                    self.assertEqual(report["ranks"], ranks)
                    self.assertTrue(report["equal"])
                    self.assertLess(report["gradient_error"], 1e-6)
                    self.assertLess(report["loss_error"], 1e-9)
                    self.assertGreaterEqual(report["accuracy"], 0.97)

    def test_leave_equal_bits_in_single_precision_too(self):
        for report in reports(GIMBAL_RUN, 2, "--epochs", "1", "--dtype", "float32"):
            with self.subTest(averaging=report["averaging"]):
                self.assertTrue(report["equal"])
                self.assertLess(report["gradient_error"], 1e-6)


if __name__ == "__main__":
    print(f"torch {torch.__version__}")
    unittest.main()
