"""Every checker in tools/ is run on a small project with one planted fault, and must name it."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Project(unittest.TestCase):
    """A git work tree in a temporary folder that holds the checkers, their settings, and what a test writes."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gimbal_lint_")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "tools").mkdir()
        for name in ("check_layers", "check_style", "check_format", "check_tidy"):
            shutil.copy(ROOT / "tools" / name, self.root / "tools" / name)
        for name in (".clang-format", ".clang-tidy"):
            shutil.copy(ROOT / name, self.root / name)
        subprocess.run(["git", "init", "--quiet", self.root], check=True)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        subprocess.run(["git", "-C", self.root, "add", name], check=True)

    def check(self, checker, *arguments):
        run = subprocess.run([self.root / "tools" / checker, *arguments], capture_output=True, text=True, check=False)
        return run.returncode, run.stdout + run.stderr

    def assert_caught(self, sentence, checker, *arguments):
        status, output = self.check(checker, *arguments)
        self.assertIn(sentence, output)
        self.assertNotEqual(status, 0)

    def assert_clean(self, checker, *arguments):
        status, output = self.check(checker, *arguments)
        self.assertEqual(status, 0, output)


class CheckLayers(Project):
    def test_includes_that_the_table_allows_pass(self):
        self.write("runtime/plan.cc", '#include "base/status.h"\n#include "collectives/schedule.h"\n#include "gimbal/gimbal.h"\n')
        self.assert_clean("check_layers")

    def test_a_transport_that_includes_a_kernel_is_named(self):
        self.write("transport/shm.cc", '// fine\n#include "kernels/reduce.h"\n')
        self.assert_caught("transport/shm.cc:2: transport/ includes kernels/reduce.h", "check_layers")

    def test_a_base_header_in_a_nested_folder_that_includes_the_runtime_is_named(self):
        self.write("base/deep/er.h", "#include <runtime/plan.h>\n")
        self.assert_caught("base/deep/er.h:1: base/ includes runtime/plan.h", "check_layers")

    def test_an_example_that_looks_behind_the_public_header_is_named(self):
        self.write("examples/digits/main.cc", '#include "base/status.h"\n')
        self.assert_caught("examples/digits/main.cc:1: examples/ includes base/status.h", "check_layers")

    def test_a_schedule_that_reads_a_clock_is_named(self):
        self.write("collectives/ring.cc", "#include <vector>\n#include <chrono>\n")
        self.assert_caught("collectives/ring.cc:2: collectives/ includes chrono", "check_layers")

    def test_a_relative_include_is_named(self):
        self.write("kernels/x86/add.cc", '#include "../reduce.h"\n')
        self.assert_caught('kernels/x86/add.cc:1: "../reduce.h" is a relative include', "check_layers")

    def test_a_link_line_beside_the_table_is_named(self):
        self.write("kernels/CMakeLists.txt", "gimbal_layer(kernels base transport)\n")
        self.assert_caught("kernels/CMakeLists.txt: gimbal_layer(kernels) links transport", "check_layers")


class CheckStyle(Project):
    def test_a_short_file_with_a_todo_that_names_its_issue_passes(self):
        self.write("base/a.cc", "// TODO(#12): more\n")
        self.assert_clean("check_style")

    def test_a_file_of_451_lines_is_named(self):
        self.write("base/long.cc", "\n" * 451)
        self.assert_caught("base/long.cc: 451 lines; at most 450", "check_style")

    def test_a_todo_without_an_issue_is_named(self):
        self.write("base/a.cc", "int a;\n// TODO: more\n")
        self.assert_caught("base/a.cc:2: a TODO names its issue", "check_style")


class CheckFormat(Project):
    def test_a_file_with_other_indentation_is_named(self):
        self.write("base/a.cc", "int f() {\n        return 1;\n}\n")
        self.assert_caught("base/a.cc", "check_format")

    def test_fix_makes_it_pass(self):
        self.write("base/a.cc", "int f() {\n        return 1;\n}\n")
        self.check("check_format", "--fix")
        self.assert_clean("check_format")


class CheckTidy(Project):
    def compile_commands(self, name):
        path = self.root / name
        (self.root / "compile_commands.json").write_text(
            f'[{{"directory": "{self.root}", "command": "c++ -std=c++20 -c {path}", "file": "{path}"}}]', encoding="utf-8"
        )

    def test_house_names_pass(self):
        self.write("base/a.cc", "class SharedRing {\n  int slot_count_ = 0;\n};\nconstexpr int kSlots = 4;\n")
        self.compile_commands("base/a.cc")
        self.assert_clean("check_tidy", self.root)

    def test_a_function_in_camel_case_is_named(self):
        self.write("base/a.cc", "int slotCount() { return 1; }\n")
        self.compile_commands("base/a.cc")
        self.assert_caught("invalid case style for function 'slotCount'", "check_tidy", self.root)

    def test_a_private_member_without_underscore_is_named(self):
        self.write("base/a.cc", "class Ring {\n  int slots = 0;\n};\n")
        self.compile_commands("base/a.cc")
        self.assert_caught("invalid case style for private member 'slots'", "check_tidy", self.root)


if __name__ == "__main__":
    unittest.main()
