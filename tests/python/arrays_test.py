"""What counts as an array, and what is said of what does not."""

import array
import ctypes
import unittest

import numpy

from gimbal import arrays, operations
from ranks import alone


class Tagged:
    """An array of a library that has only DLPack."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self):
        return self.values.__dlpack__()


class OnDevice:
    """An array of a CUDA library, as far as it says what it is."""

    __cuda_array_interface__ = {"shape": (2,), "typestr": "<f4", "data": (4096, False), "version": 3, "stream": 7}


class AView(unittest.TestCase):
    def test_has_the_pointer_shape_and_type_of_a_numpy_array(self):
        values = numpy.zeros((2, 3), numpy.float32)
        found = arrays.view(values)
        self.assertEqual((found.pointer, found.shape, found.dtype.name, found.nbytes, found.writable, found.device),
                         (values.ctypes.data, (2, 3), "float32", 24, True, False))

    def test_of_a_buffer_is_the_buffer_itself(self):
        values = array.array("d", [1.0, 2.0])
        found = arrays.view(values)
        self.assertEqual(ctypes.c_double.from_address(found.pointer + 8).value, 2.0)
        self.assertEqual((found.shape, found.dtype.name, found.writable), ((2,), "float64", True))

    def test_of_bytes_is_read_only(self):
        content = b"abc"
        found = arrays.view(content)
        self.assertFalse(found.writable)
        self.assertEqual(ctypes.string_at(found.pointer, 3), b"abc")

    def test_follows_dlpack(self):
        values = numpy.arange(6, dtype=numpy.int32).reshape(3, 2)
        found = arrays.view(Tagged(values))
        self.assertEqual((found.pointer, found.shape, found.dtype.name), (values.ctypes.data, (3, 2), "int32"))

    def test_of_a_device_array_names_its_stream_which_calls_take(self):
        found = arrays.view(OnDevice())
        self.assertEqual((found.pointer, found.device, found.stream), (4096, True, 7))
        self.assertEqual(operations.Issue("all_reduce", (), None, None, (found, found)).stream, 7)
        self.assertEqual(operations.Issue("all_reduce", (), 9, None, (found, found)).stream, 9)
        self.assertIsNone(operations.Issue("all_reduce", (), None, None, (arrays.view(numpy.zeros(2)),)).stream)

    def test_keeps_the_memory_alive(self):
        found = arrays.view(numpy.full(1000, 7, numpy.int64))
        self.assertEqual(ctypes.c_int64.from_address(found.pointer + 8 * 999).value, 7)

    def test_takes_a_tag_for_a_type_that_numpy_lacks(self):
        self.assertEqual(arrays.view(numpy.zeros(4, numpy.uint16), "bfloat16").dtype.name, "bfloat16")

    def test_refuses_a_tag_of_another_size(self):
        with self.assertRaisesRegex(ValueError, "dtype bfloat16 has 2 bytes, but an element of the array has 4"):
            arrays.view(numpy.zeros(4, numpy.float32), "bfloat16")

    def test_refuses_an_unknown_tag_and_lists_the_types(self):
        with self.assertRaisesRegex(ValueError, 'dtype "complex64" is none of Gimbal\'s: int8, .*float8_e5m2'):
            arrays.view(numpy.zeros(4, numpy.float32), "complex64")

    def test_refuses_what_is_not_contiguous_and_says_its_strides(self):
        for values in (numpy.zeros((4, 4))[:, :2], Tagged(numpy.zeros((4, 4)).T[:, 1:]), memoryview(b"abcdef")[::2]):
            with self.subTest(type(values).__name__), self.assertRaisesRegex(ValueError, r"not C-contiguous \(shape .*strides"):
                arrays.view(values)

    def test_refuses_what_is_no_array(self):
        with self.assertRaisesRegex(TypeError, "list is no array"):
            arrays.view([1.0])

    def test_has_no_type_for_bool_and_the_other_byte_order(self):
        self.assertIsNone(arrays.view(numpy.zeros(4, bool)).dtype)
        self.assertIsNone(arrays.view(numpy.zeros(4, ">f4")).dtype)


class AnArrayOfAnOddKind(unittest.TestCase):
    def test_cannot_be_reduced(self):
        with alone() as comm, self.assertRaisesRegex(ValueError, "ndarray bool cannot be reduced: Gimbal's types are int8"):
            comm.all_reduce(numpy.zeros(4, bool))

    def test_can_be_moved(self):
        with alone() as comm:
            moved = comm.all_gather(numpy.array([True, False]))
        self.assertEqual(moved.dtype, bool)
        self.assertEqual(moved.tolist(), [[True, False]])


if __name__ == "__main__":
    unittest.main()
