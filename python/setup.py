"""Builds the wheel: the package and, inside it, libgimbal.so and the tools, compiled from the sources around this folder.

`pip wheel .` here needs what the project's build needs (tools/install_dependencies). GIMBAL_TREE names an installed tree
(cmake --install) to take the library from instead of compiling it.
"""

import os
import pathlib
import re
import shutil
import subprocess

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py
from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE.parent
TOOLS = ("gimbal-run", "gimbal-bench", "gimbal-topo", "gimbal-plan")


def version():
    return re.search(r'__version__ = "([^"]+)"', (HERE / "gimbal" / "_library.py").read_text()).group(1)


def built_tree():
    """An installed tree of this version."""
    if "GIMBAL_TREE" in os.environ:
        return pathlib.Path(os.environ["GIMBAL_TREE"])
    build = PROJECT / "build" / "wheel"
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DGIMBAL_BUILD_TESTS=OFF", "-DGIMBAL_BUILD_EXAMPLES=OFF", "-DCMAKE_INSTALL_LIBDIR=lib"]
    subprocess.run(["cmake", "-S", PROJECT, "-B", build, "-G", "Ninja", *options], check=True)
    subprocess.run(["cmake", "--build", build], check=True)
    subprocess.run(["cmake", "--install", build, "--prefix", build / "tree"], check=True)
    return build / "tree"


class BuildWithLibrary(build_py):
    """Adds lib/ and bin/ to the package."""

    def run(self):
        super().run()
        tree, package = built_tree(), pathlib.Path(self.build_lib) / "gimbal"
        library = next(tree.glob("lib*/**/libgimbal.so.0"), None)
        if library is None:
            raise SystemExit(f"setup.py: {tree} has no libgimbal.so.0: it is no installed tree of Gimbal")
        (package / "lib").mkdir(exist_ok=True)
        shutil.copy(library, package / "lib" / library.name)
        (package / "bin").mkdir(exist_ok=True)
        for tool in TOOLS:
            shutil.copy(tree / "bin" / tool, package / "bin" / tool)


class PlatformWheel(bdist_wheel):
    """One wheel for every Python 3 of this platform: nothing in it is compiled against Python."""

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


class WithLibrary(Distribution):
    """Not pure, so that the wheel names the platform."""

    def has_ext_modules(self):
        return True


setup(version=version(), cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel}, distclass=WithLibrary)
