"""The package's tables against include/gimbal/*.h: prototypes, enumerations, structs and their initial values."""

import ctypes
import pathlib
import re
import unittest

from gimbal import Status, _gradsync, _library, communicator, dtypes, operations

FOLDER = pathlib.Path(__file__).parents[2] / "include" / "gimbal"
HEADER = (FOLDER / "gimbal.h").read_text()
GRADSYNC = (FOLDER / "gradsync.h").read_text()
LETTERS_OF = {"size_t": "z", "int32_t": "i", "double": "d", "gimbal_dtype_t": "i", "gimbal_op_t": "i", "gimbal_memory_t": "i",
              "gimbal_collective_t": "i", "const char*": "s", "gimbal_gradsync_reduction_t": "i", "gimbal_sparse_form_t": "i"}
HANDLES = ("gimbal_comm_t", "gimbal_stream_t", "void*", "const void*", "const size_t*", "char*", "gimbal_gradsync_t", "gimbal_sparse_t")


def letter_of(declaration):
    kind = re.sub(r"\s*\b\w+$", "", declaration.strip()).replace(" *", "*")
    if kind in HANDLES:
        return "p"
    return LETTERS_OF.get(kind, "o")


def header_prototypes(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    found = {}
    for name, arguments in re.findall(r"GIMBAL_EXPORT gimbal_status_t gimbal_(\w+)\(([^)]*)\);", text):
        found[name] = "".join(letter_of(part) for part in arguments.split(",")) if arguments.strip() != "void" else ""
    return found


def header_enum(text, type_name):
    body = re.search(r"typedef enum \{([^}]*)\} " + type_name, text).group(1)
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    return {name: int(value) for name, value in re.findall(r"GIMBAL_(\w+) = (\d+)", body)}


def header_fields(text, type_name):
    body = re.search(r"typedef struct \{([^}]*)\} " + type_name, text).group(1)
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    return [re.search(r"\(\*(\w+)\)|(\w+)$", line.strip()).group(1) or re.search(r"(\w+)$", line.strip()).group(1)
            for line in body.split(";") if line.strip()]


class TheHeader(unittest.TestCase):
    def test_has_the_prototypes_of_the_package_and_no_others(self):
        self.assertEqual(header_prototypes(HEADER), _library.prototypes())

    def test_of_gradients_has_the_prototypes_of_the_package_and_no_others(self):
        self.assertEqual(header_prototypes(GRADSYNC), _gradsync.PROTOTYPES)

    def test_a_changed_prototype_is_seen(self):
        changed = HEADER.replace("gimbal_comm_abort(gimbal_comm_t comm)", "gimbal_comm_abort(gimbal_comm_t comm, int32_t why)")
        self.assertNotEqual(header_prototypes(changed), _library.prototypes())

    def test_has_the_same_enumerations(self):
        self.assertEqual(header_enum(HEADER, "gimbal_status_t"), {status.name: int(status) for status in Status})
        types = {entry.name.upper(): entry.code for entry in dtypes.DTYPES}
        self.assertEqual(header_enum(HEADER, "gimbal_dtype_t"), types)
        self.assertEqual(header_enum(HEADER, "gimbal_op_t"), {name.upper(): i for i, name in enumerate(operations.OPS)})
        self.assertEqual(header_enum(HEADER, "gimbal_collective_t"),
                         {name.upper(): i for i, name in enumerate(communicator.COLLECTIVES)})

    def test_of_gradients_has_the_same_enumerations(self):
        for kind, prefix, names in (("reduction", "", _gradsync.REDUCTIONS), ("missing", "MISSING_", _gradsync.MISSING),
                                    ("wire", "WIRE_", _gradsync.WIRES)):
            declared = header_enum(GRADSYNC, f"gimbal_gradsync_{kind}_t")
            self.assertEqual(declared, {f"GRADSYNC_{prefix}{name.upper()}": i for i, name in enumerate(names)})
        self.assertEqual(header_enum(GRADSYNC, "gimbal_sparse_form_t"),
                         {f"SPARSE_{name.upper()}": i for i, name in enumerate(_gradsync.FORMS)})

    def test_of_gradients_has_the_same_fields_in_its_structs(self):
        declared = re.search(r"typedef struct gimbal_codec \{(.*?)\n\} gimbal_codec_t;", GRADSYNC, flags=re.S).group(1)
        declared = re.sub(r"/\*.*?\*/|\[64\]", "", declared, flags=re.S)
        names = [re.search(r"\(\*(\w+)\)\(|(\w+)$", line.strip()) for line in declared.split(";") if line.strip()]
        self.assertEqual([name.group(1) or name.group(2) for name in names], [name for name, _ in _gradsync.Codec._fields_])
        for type_name, struct in (("gimbal_gradsync_parameter_t", _gradsync.Parameter),
                                  ("gimbal_sparse_result_t", _gradsync.SparseResult),
                                  ("gimbal_gradsync_options_t", _gradsync.Options), ("gimbal_gradsync_stats_t", _gradsync.Stats)):
            with self.subTest(type_name):
                self.assertEqual(header_fields(GRADSYNC, type_name), [name for name, _ in struct._fields_])

    def test_has_the_same_fields_in_its_structs(self):
        for type_name, struct in (("gimbal_config_t", _library.Config), ("gimbal_stats_t", _library.Stats),
                                  ("gimbal_store_t", _library.Store), ("gimbal_reduce_options_t", _library.ReduceOptions)):
            with self.subTest(type_name):
                self.assertEqual(header_fields(HEADER, type_name), [name for name, _ in struct._fields_])

    def test_has_the_same_sizes_of_types(self):
        for entry in dtypes.DTYPES:
            self.assertEqual(_library.library.gimbal_dtype_size(entry.code), entry.size, entry.name)

    def test_config_begins_as_the_initializer_macro_does(self):
        macro = re.search(r"#define GIMBAL_CONFIG_INIT(.*?)\n\n", HEADER, flags=re.S).group(1)
        values = [word.strip() for word in re.search(r"\{(.*)\}", macro.replace("\\", ""), flags=re.S).group(1).split(",")]
        config = _library.Config()
        for value, (name, _) in zip(values, _library.Config._fields_):
            have = getattr(config, name)
            if value.lstrip("-").isdigit():
                self.assertEqual(have, int(value), name)
            elif value == "NULL":
                self.assertFalse(have, name)
        self.assertEqual(config.struct_bytes, ctypes.sizeof(_library.Config))
        self.assertEqual(len(values), len(_library.Config._fields_))


if __name__ == "__main__":
    unittest.main()
