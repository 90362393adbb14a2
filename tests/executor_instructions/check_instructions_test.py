#!/usr/bin/env python3
"""The checker of instructions per step finds growth, accepts less, and skips where there is no record."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECKER = sys.argv.pop()


class CheckInstructions(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.record = pathlib.Path(folder.name) / "record.json"
        self.record.write_text(json.dumps({"GNU 12": 100.0}))

    def check(self, *arguments, compiler="GNU 12"):
        command = [sys.executable, CHECKER, "--record", self.record, "--compiler", compiler, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_fails_when_a_step_takes_six_percent_more(self):
        result = self.check("--measured", "106")
        self.assertEqual(result.returncode, 1)
        self.assertIn("106.0 instructions per step, 100.0 recorded: +6.0%", result.stdout)

    def test_accepts_four_percent_more(self):
        self.assertEqual(self.check("--measured", "104").returncode, 0)

    def test_accepts_less(self):
        self.assertEqual(self.check("--measured", "50").returncode, 0)

    def test_skips_a_compiler_without_a_record_and_names_it(self):
        result = self.check("--measured", "106", compiler="Clang 14")
        self.assertEqual(result.returncode, 77)
        self.assertIn("no number for Clang 14", result.stdout)

    def test_records_what_was_measured(self):
        self.assertEqual(self.check("--measured", "90.04", "--update").returncode, 0)
        self.assertEqual(json.loads(self.record.read_text()), {"GNU 12": 90.0})


if __name__ == "__main__":
    unittest.main()
