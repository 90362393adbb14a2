"""compare_exports.py names a function that is missing and one that is too many."""

import unittest

from compare_exports import declared_functions, differences, exported_names

HEADER = """
/* GIMBAL_EXPORT int gimbal_in_a_comment(void); */
#define GIMBAL_EXPORT __attribute__((visibility("default")))
GIMBAL_EXPORT const char* gimbal_status_name(gimbal_status_t status);
GIMBAL_EXPORT gimbal_status_t gimbal_all_reduce(const void* send, void* recv,
                                                size_t count);
typedef int (*gimbal_callback_t)(void* context);
"""
LISTING = """0000000000000000 A GIMBAL_0
0000000000001120 T gimbal_all_reduce@@GIMBAL_0
0000000000001100 T gimbal_status_name@@GIMBAL_0
"""


class CompareExports(unittest.TestCase):
    def test_equal_lists_have_no_differences(self):
        self.assertEqual(differences(declared_functions(HEADER), exported_names(LISTING)), [])

    def test_a_declared_function_that_is_not_exported_is_named(self):
        header = HEADER + "GIMBAL_EXPORT int gimbal_forgotten(void);\n"
        found = differences(declared_functions(header), exported_names(LISTING))
        self.assertEqual(found, ["gimbal_forgotten is declared but not exported"])

    def test_a_cpp_symbol_that_leaks_is_named(self):
        found = differences(declared_functions(HEADER), exported_names(LISTING + "0000000000001200 T _ZN6gimbal4ringEv\n"))
        self.assertEqual(found, ["_ZN6gimbal4ringEv is exported but not declared"])

    def test_a_weak_symbol_that_leaks_is_named(self):
        found = differences(declared_functions(HEADER), exported_names(LISTING + "0000000000001200 W _ZTS6Status\n"))
        self.assertEqual(found, ["_ZTS6Status is exported but not declared"])


if __name__ == "__main__":
    unittest.main()
