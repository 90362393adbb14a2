"""Stock DistributedDataParallel over backend "gimbal" against gloo, in every combination of its options and of ways to use it."""

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

RANKS = pathlib.Path(__file__).with_name("torch_ddp_ranks.py")


def reports(*arguments):
    """What each of two ranks found."""
    ended = subprocess.run([sys.executable, "-m", "gimbal.run", "-n", "2", sys.executable, RANKS, *arguments],
                           capture_output=True, text=True, timeout=250)
    found = [json.loads(line[line.index("{"):]) for line in ended.stdout.splitlines() if line.endswith("}")]
    if ended.returncode or len(found) != 2:
        raise AssertionError(f"status {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return found


class DistributedDataParallel(unittest.TestCase):
    def test_comes_to_gloos_parameters_or_refuses_as_gloo_does_in_every_combination(self):
        # 2 to the 6 without the 8 in which gloo ends the process; in 8, parameters are left out that nothing announced.
        self.assertEqual(reports(), [{"combinations": 56, "trained": 48, "differences": {}}] * 2)

    def test_that_trains_otherwise_is_seen(self):
        for report in reports("--plant"):
            self.assertEqual(len(report["differences"]), report["trained"])


if __name__ == "__main__":
    print(f"torch {torch.__version__}")
    unittest.main()
