"""examples/torch_*.py: whatever averages the gradients, training is that of one process on the joined batch."""

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

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
WAYS = ["gloo", "gimbal", "hook", "synchronizer"]
GIMBAL_RUN = [sys.executable, "-m", "gimbal.run", "-n"]
# Debian's torchrun of 1.13 fails under Debian's Python 3.11, whatever it is to run.
TORCHRUN = (GIMBAL_RUN if torch.__version__.startswith("1.") else
            [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node"])


def reports(launcher, ranks, example, *arguments):
    """What rank 0 reports: lines of JSON."""
    ended = subprocess.run([*launcher, str(ranks), EXAMPLES / example, *arguments], capture_output=True, text=True, timeout=250)
    if ended.returncode:
        raise AssertionError(f"status {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return [json.loads(line[line.index("{"):]) for line in ended.stdout.splitlines() if line.endswith("}")]


class Digits(unittest.TestCase):
    def test_are_learnt_as_one_process_does(self):
        for launcher, ranks in ((GIMBAL_RUN, 1), (TORCHRUN, 2), (GIMBAL_RUN, 4)):
            found = reports(launcher, ranks, "torch_digits.py")
            self.assertEqual([report["averaging"] for report in found], WAYS)
            for report in found:
                with self.subTest(ranks=ranks, averaging=report["averaging"]):
                    self.assertEqual(report["ranks"], ranks)
                    self.assertTrue(report["equal"])
                    self.assertLess(report["gradient_error"], 1e-6)
                    self.assertLess(report["loss_error"], 1e-9)
                    self.assertGreaterEqual(report["accuracy"], 0.97)

    def test_leave_equal_bits_in_single_precision_too(self):
        for report in reports(GIMBAL_RUN, 2, "torch_digits.py", "--epochs", "1", "--dtype", "float32"):
            with self.subTest(averaging=report["averaging"]):
                self.assertTrue(report["equal"])
                self.assertLess(report["gradient_error"], 1e-6)


class AModelOfRealSize(unittest.TestCase):
    def test_has_the_mean_in_every_gradient(self):
        report, = reports(GIMBAL_RUN, 2, "torch_resnet_like.py", "--model", "resnet50", "--rounds", "1")
        self.assertEqual((report["parameters"], report["ranks"]), (25_557_032, 2))


if __name__ == "__main__":
    print(f"torch {torch.__version__}")
    unittest.main()
