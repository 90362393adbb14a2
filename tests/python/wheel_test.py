"""`pip wheel .` makes a wheel with the library inside, that works where nothing else of Gimbal is.

    wheel_test.py SOURCES FOLDER      GIMBAL_TREE in the environment is the installed tree that it takes the library from
"""

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

PROGRAM = """
import gimbal, numpy
with gimbal.Communicator() as comm:
    assert comm.all_reduce(numpy.ones(2)).tolist() == [comm.size] * 2
    assert gimbal.__file__.startswith(%r), gimbal.__file__
"""


def main():
    sources, folder = map(pathlib.Path, sys.argv[1:])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # A copy, since setuptools leaves build folders beside the sources.
    shutil.copytree(sources / "python", folder / "python", ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-q", "-w", folder, "."],
                   cwd=folder / "python", check=True)
    wheel, = folder.glob("*.whl")
    name = wheel.name
    assert name.startswith("gimbal-0.1.0-py3-none-linux_"), name
    held = set(zipfile.ZipFile(wheel).namelist())
    for wanted in ("gimbal/lib/libgimbal.so.0", "gimbal/bin/gimbal-run", "gimbal/bin/gimbal-bench", "gimbal/py.typed", "gimbal/torch/backend.py"):
        assert wanted in held, f"{name} lacks {wanted}"
    site = folder / "site"
    subprocess.run([sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "-q", "--target", site, wheel], check=True)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIMBAL_")}
    environment.update(PYTHONPATH=str(site), PATH="/usr/bin:/bin")
    script = folder / "program.py"
    script.write_text(PROGRAM % str(site))
    subprocess.run([sys.executable, "-m", "gimbal.run", "-n", "2", script], env=environment, cwd=folder, check=True)
    bench = subprocess.run([site / "gimbal" / "bin" / "gimbal-bench", "--version"], env=environment, check=True, capture_output=True)
    assert b"0.1.0" in bench.stdout, bench.stdout


main()
print("the wheel holds the library and works by itself")
