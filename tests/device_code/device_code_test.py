"""The compiled device code keeps its budgets: 40 MiB, 5 minutes on 2 cores, no spills, every architecture."""

import os
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
REPORTS = pathlib.Path(os.environ["DEVICE_CODE_REPORTS"])
LIBRARY = pathlib.Path(os.environ["DEVICE_CODE_LIBRARY"])
PLANTED = pathlib.Path(os.environ["DEVICE_CODE_PLANTED"])

MOST_LIBRARY_BYTES = 40 << 20
MOST_CPU_SECONDS = 2 * 300


def check_spills(folder):
    run = subprocess.run([ROOT / "tools" / "check_spills", folder], capture_output=True, text=True, check=False)
    return run.returncode, run.stdout


def reports():
    return [report.read_text(encoding="utf-8") for report in REPORTS.rglob("*.ptxas")]


class DeviceCode(unittest.TestCase):
    def test_no_kernel_spills(self):
        status, output = check_spills(REPORTS)
        self.assertEqual(status, 0, output)

    def test_a_kernel_that_spills_is_named(self):
        status, output = check_spills(PLANTED)
        self.assertEqual(status, 1)
        self.assertRegex(output, r"spilling_kernel for sm_90: spills [1-9]\d* bytes")

    def test_a_folder_without_reports_is_an_error(self):
        status, _ = check_spills(ROOT / "docs")
        self.assertEqual(status, 1)

    def test_every_source_was_compiled_for_every_architecture(self):
        for report in reports():
            if "Compiling entry function" in report:
                self.assertEqual(sorted(set(re.findall(r"for '(sm_\d+)'", report))), ["sm_100", "sm_120", "sm_80", "sm_90"])

    def test_compiling_takes_less_than_five_minutes_on_two_cores(self):
        seconds = sum(float(re.search(r"cpu_seconds (\S+)", report)[1]) for report in reports())
        self.assertLess(seconds, MOST_CPU_SECONDS)

    def test_the_library_is_below_its_size(self):
        self.assertLess(LIBRARY.stat().st_size, MOST_LIBRARY_BYTES)


if __name__ == "__main__":
    unittest.main()
