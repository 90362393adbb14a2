"""Compares the functions that a shared library exports with those that public headers declare.

    compare_exports.py [--nm NM] LIBRARY HEADER...

Prints each name that stands on one side only, and exits 1 when there was one.
"""

import argparse
import pathlib
import re
import subprocess
import sys

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
DECLARATION = re.compile(r"^GIMBAL_EXPORT\b[^;({]*?\b(\w+)\s*\(", re.MULTILINE)


def declared_functions(text):
    return set(DECLARATION.findall(COMMENT.sub(" ", text)))


def exported_names(nm_output):
    """Defined dynamic symbols, without version suffixes and without the version node itself."""
    names = set()
    for line in nm_output.splitlines():
        *_, kind, name = line.split()
        if kind != "A":
            names.add(name.split("@")[0])
    return names


def differences(declared, exported):
    return [f"{name} is declared but not exported" for name in sorted(declared - exported)] + [
        f"{name} is exported but not declared" for name in sorted(exported - declared)
    ]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nm", default="nm")
    parser.add_argument("library")
    parser.add_argument("headers", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    declared = set().union(*(declared_functions(header.read_text(encoding="utf-8")) for header in arguments.headers))
    listing = subprocess.run([arguments.nm, "-D", "--defined-only", arguments.library], check=True, capture_output=True, text=True)
    found = differences(declared, exported_names(listing.stdout))
    print("\n".join(found) if found else f"symbols: the {len(declared)} declared functions are exported, and nothing else")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
