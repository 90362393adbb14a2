"""PyTorch's own tests of a backend of torch.distributed, run on "gimbal", and compared with what is recorded of them.

    torch_own_tests.py             runs those that passed when they were recorded; status 1 when one does not any more
    torch_own_tests.py --record    runs all, and writes torch_own_tests_<version>.txt beside this file
    torch_own_tests.py --only test_all_reduce_sum    runs some, by their beginnings, and says what they come to

They are the methods of torch.testing._internal.distributed.distributed_test, which torch installs with itself. Each line of the
record is a test, "passed", "failed" or "not applicable", and the reason. Exits with status 77 where they cannot be imported.
"""

import argparse
import logging
import os
import pathlib
import re
import sys
import unittest

os.environ.setdefault("WORLD_SIZE", "4")  # some want so many ranks
os.environ.update(BACKEND="gimbal", OMP_NUM_THREADS="1", GIMBAL_LOG="error")

try:
    import torch
    import gimbal.torch
    from torch.testing._internal import common_distributed
    from torch.testing._internal.common_distributed import DistTestCases

    for feature in ("ddp", "gpu", "plugin", "subgroup"):
        DistTestCases.backend_feature[feature].add("gimbal")
    DistTestCases.skip_collective["sendrecv anysource"].add("gimbal")
    from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend
except ImportError as error:
    print(f"skipped: {error}; these tests need torch and expecttest")
    sys.exit(77)

RECORD = pathlib.Path(__file__).with_name("torch_own_tests_" + ".".join(torch.__version__.split(".")[:2]) + ".txt")
common_distributed.TIMEOUT_DEFAULT = 60


class OwnTests(TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)  # with torch imported already


class Outcomes(unittest.TestResult):
    """Test -> its line of the record."""

    def __init__(self):
        super().__init__()
        self.lines = {}

    def _add(self, test, outcome, reason=""):
        name = test.id().rsplit(".", 1)[-1]
        self.lines[name] = f"{name}: {outcome}{': ' + reason if reason else ''}"
        print(self.lines[name], flush=True)

    def addSuccess(self, test):
        self._add(test, "passed")

    def addSkip(self, test, reason):
        self._add(test, "not applicable", re.sub(r"\{(.*?)\}", in_order, " ".join(reason.split())))

    def addFailure(self, test, error):
        self._add(test, "failed", reason_of(str(error[1])))

    addError = addFailure


def reason_of(text):
    """The last line that says what a process raised, without what differs from run to run."""
    raised = [line for line in text.splitlines() if re.match(r"\w*(\.\w+)*(Error|Exception|Unsupported|Mismatch)\b", line)]
    line = raised[-1] if raised else text.strip().splitlines()[0]
    return re.sub(r"0x[0-9a-f]+|pid \d+|/\S+/", "...", line)[:160]


def in_order(braces):
    """A set as text, the same in every run."""
    return "{" + ", ".join(sorted(braces.group(1).split(", "))) + "}"


def is_for_cuda(name):
    return re.search(r"cuda|nccl|gpu", name) is not None


def recorded():
    return dict(line.split(": ", 1) for line in RECORD.read_text().splitlines() if line.startswith("test_"))


def record(lines):
    counts = {outcome: sum(f": {outcome}" in line for line in lines) for outcome in ("passed", "failed", "not applicable")}
    head = f"# torch {torch.__version__}, {os.environ['WORLD_SIZE']} ranks: " + ", ".join(f"{counts[name]} {name}" for name in counts)
    RECORD.write_text("\n".join([head, *lines, ""]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()
    names = sorted(name for name in dir(OwnTests) if name.startswith("test_"))
    if arguments.only:
        names = [name for name in names if name.startswith(tuple(arguments.only))]
    elif not arguments.record:
        if not RECORD.exists():
            print(f"skipped: nothing is recorded of torch {torch.__version__}: {RECORD.name}")
            return 77
        names = [name for name, outcome in recorded().items() if outcome == "passed"]
    outcomes = Outcomes()
    for name in names:
        if is_for_cuda(name):
            outcomes._add(OwnTests(name), "not applicable", "needs CUDA")
        else:
            OwnTests(name).run(outcomes)
    if arguments.record:
        record(outcomes.lines.values())
    elif not arguments.only:
        worse = [line for line in outcomes.lines.values() if not line.endswith(": passed")]
        print("\n".join(worse) if worse else f"all {len(names)} that passed when they were recorded pass")
        return 1 if worse else 0
    return 0


if __name__ == "__main__":
    logging.disable(logging.INFO)
    sys.exit(main())
