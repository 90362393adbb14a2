"""Runs of drivers: right ones give figures, wrong sums are caught by name, hanging ones end by their time limit."""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import re
import sys
import tempfile
import time
import unittest
from unittest import mock

from comparison import libraries, running

WRONG_DRIVER = os.environ["WRONG_DRIVER"]


def library(name, command, kind="peer"):
    return libraries.Library(name, kind, "1.0", lambda ranks, arguments: [libraries.Launch([[*command, *arguments]], [{}])])


def python(program):
    return [sys.executable, "-c", program]


def load_compare():
    """The command as a module; it has no suffix."""
    path = str(libraries.SOURCE / "compare")
    loader = importlib.machinery.SourceFileLoader("compare", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare", loader))
    loader.exec_module(module)
    return module


class AlgorithmsTest(unittest.TestCase):
    def test_knows_every_registered_algorithm_and_all_means_those_of_one_host(self):
        source = (libraries.SOURCE.parents[1] / "collectives/algorithm.cc").read_text(encoding="utf-8")
        registered = re.findall(r'Algorithm\{"(\w+)", Collective::kAllReduce', source)
        self.assertGreater(len(registered), 0)
        compare = load_compare()
        self.assertEqual(compare.algorithms("all"), ["auto", "direct", *(name for name in registered if name[:5] != "hier_")])
        self.assertEqual(compare.algorithms(",".join(registered)), registered)


class RunningTest(unittest.TestCase):
    def test_a_right_driver_gives_one_row_per_size(self):
        rows, finished = running.run_library(library("one", [WRONG_DRIVER]), 1, ["20", "4", "8"], 30)
        self.assertTrue(finished)
        self.assertEqual(sorted(rows), [4, 8])
        self.assertGreater(rows[8]["median_us"], 0)
        self.assertLessEqual(rows[8]["min_us"], rows[8]["median_us"])

    def test_a_wrong_sum_is_caught_with_the_name_of_the_library(self):
        with self.assertRaisesRegex(running.WrongResult, "planted: rank 0: wrong result: 1 of 32 elements .* the first at 30"):
            running.run_library(library("planted", [WRONG_DRIVER]), 1, ["20", "8", "128"], 30)

    def test_compare_fails_and_names_the_library_whose_sum_is_wrong(self):
        compare = load_compare()
        peers = {"planted": lambda build, where: library("planted", [WRONG_DRIVER])}
        errors = io.StringIO()
        with tempfile.TemporaryDirectory() as build, mock.patch.dict(libraries.PEERS, peers), contextlib.redirect_stderr(errors):
            arguments = ["--no-gimbal", "--ranks", "1", "--peers", "planted", "--sizes", "128", "--rounds", "1", "--build", build]
            self.assertEqual(compare.main(arguments), 1)
        self.assertIn("failed: planted: rank 0: wrong result", errors.getvalue())

    def test_a_run_that_hangs_ends_at_its_time_limit_and_keeps_what_it_measured(self):
        program = ("import time; print('{\"bytes\": 8, \"median_us\": 1.5}', flush=True); time.sleep(600)")
        started = time.monotonic()
        rows, finished = running.run_library(library("hanging", python(program)), 1, [], 0.5)
        self.assertFalse(finished)
        self.assertEqual(rows[8]["median_us"], 1.5)
        self.assertLess(time.monotonic() - started, 30)

    def test_a_driver_that_fails_is_reported_with_its_last_words(self):
        with self.assertRaisesRegex(running.DidNotRun, "broken: exit status 1: no network"):
            running.run_library(library("broken", python("raise SystemExit('no network')")), 1, [], 30)

    def test_of_several_launches_the_fastest_counts_at_each_size(self):
        def launches(_, __):
            return [libraries.Launch([python(f"print('{{\"bytes\": 8, \"median_us\": {time_us}}}')")], [{}]) for time_us in (3, 2, 4)]
        rows, _ = running.run_library(libraries.Library("limit", "limit", "", launches), 2, [], 30)
        self.assertEqual(rows[8]["median_us"], 2)


if __name__ == "__main__":
    unittest.main()
