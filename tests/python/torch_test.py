"""gimbal.torch on the torch of this Python: every operation of torch.distributed, DDP and the hook, on 3 ranks."""

import pathlib
import subprocess
import sys
import unittest

try:
    import torch
except ImportError as error:
    print(f"skipped: no torch here ({error}); tools/install_dependencies installs Debian's")
    sys.exit(77)

RANKS = pathlib.Path(__file__).with_name("torch_ranks.py")
SIZE = 3
OLD = torch.__version__.startswith("1.")


def job(backend, *cases):
    """One job for many cases: to import torch takes seconds. What each case has to say, and everything that was said."""
    ended = subprocess.run([sys.executable, "-m", "gimbal.run", "-n", str(SIZE), sys.executable, RANKS, backend, *cases],
                           capture_output=True, text=True, timeout=200)
    return ended.stdout.splitlines(), ended.stdout + ended.stderr


class UnderTorch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        sharded = [] if OLD else ["fsdp", "fully_shard"]
        # Failures last: they end the communicator.
        cls.backend = job("gimbal", "reductions", "movements", "messages", "views", "groups", "ddp", *sharded, "failures")
        cls.gloo = job("gloo", "hook")

    def passed(self, case, lines_and_text):
        lines, text = lines_and_text
        self.assertEqual([line for line in sorted(lines) if line.endswith(f"passed {case}")],
                         [f"[{rank}] passed {case}" for rank in range(SIZE)], text)

    def test_reductions_have_torchs_results(self):
        self.passed("reductions", self.backend)

    def test_movements_bring_every_tensor_where_it_belongs(self):
        self.passed("movements", self.backend)

    def test_messages_cross_each_other(self):
        self.passed("messages", self.backend)

    def test_a_view_that_is_not_contiguous_is_reduced_in_place(self):
        self.passed("views", self.backend)

    def test_groups_of_some_ranks_work(self):
        self.passed("groups", self.backend)

    def test_ranks_of_different_counts_are_told(self):
        self.passed("failures", self.backend)

    def test_ddp_trains_as_one_process_does_on_the_whole_batch(self):
        self.passed("ddp", self.backend)

    @unittest.skipIf(OLD, "torch 1.13's FSDP asserts CUDA")
    def test_both_forms_of_fsdp_train_as_one_process_does(self):
        self.passed("fsdp", self.backend)
        self.passed("fully_shard", self.backend)

    def test_the_hook_trains_as_one_process_does_on_the_whole_batch(self):
        self.passed("hook", self.gloo)


if __name__ == "__main__":
    print(f"torch {torch.__version__}")
    unittest.main()
