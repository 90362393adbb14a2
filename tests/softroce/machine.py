"""An emulated machine with soft-RoCE: Debian's own kernel, unpacked and never installed, in QEMU without KVM.

    machine = Machine(cache)            # raises CannotEmulate with the reason
    status = machine.run(["ibv_devinfo"], shared=folder)

The guest sees all files of this machine at their own paths, read-only, with a file system in memory above them: programs built
here run there as they are, and what they write is dropped, but below `shared`. It has two devices, rxe0 (10.77.0.1) and rxe1
(10.77.0.2), at the ends of one virtual cable. How it is set up is in guest_init and guest_setup beside this file.
"""

import contextlib
import fcntl
import lzma
import os
import pathlib
import platform
import shlex
import shutil
import subprocess
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
# In the order in which the guest loads them: its root first, then the devices.
ROOT_MODULES = ["virtio_pci", "virtio_mmio", "9pnet_virtio", "9p", "overlay", "virtio_console"]
DEVICE_MODULES = ["crc32_generic", "rdma_rxe", "ib_uverbs", "veth", "sch_netem"]
# The command here, and Debian's package that has it; tools/install_dependencies installs them.
COMMANDS = {
    "qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "modprobe": "kmod", "depmod": "kmod", "cpio": "cpio",
    "rdma": "iproute2", "ibv_devinfo": "ibverbs-utils", "ib_write_bw": "perftest", "apt-get": "apt", "dpkg": "dpkg",
}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class CannotEmulate(Exception):
    """This machine cannot emulate the other; the text says why."""


def tool(*command, **options):
    """Runs a tool and returns its output."""
    environment = {**os.environ, "PATH": PATH, "LC_ALL": "C"}
    done = subprocess.run(command, env=environment, capture_output=True, check=False, **options)
    if done.returncode != 0:
        raise CannotEmulate(f"{' '.join(map(str, command))}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode(errors="replace")


class Kernel:
    """Debian's newest kernel of this release, in a folder that keeps it."""

    def __init__(self, cache):
        self.cache = pathlib.Path(cache).resolve()
        self.cache.mkdir(parents=True, exist_ok=True)
        self.root = self.cache / "root"
        self.initramfs = self.cache / "initramfs"
        with open(self.cache / "lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (self.cache / "ready").exists():
                self._fetch()
                (self.cache / "ready").touch()
            self.release = next((self.root / "lib/modules").iterdir()).name
            self._unpack_image()
            self._build_initramfs()

    def _fetch(self):
        shutil.rmtree(self.root, ignore_errors=True)
        if "Depends:" not in tool("apt-cache", "depends", "linux-image-amd64"):
            tool("apt-get", "update")
        lines = tool("apt-cache", "depends", "linux-image-amd64").splitlines()
        packages = [line.split()[-1] for line in lines if "Depends: linux-image-" in line]
        if not packages:
            raise CannotEmulate("apt knows no linux-image-amd64")
        with tempfile.TemporaryDirectory(dir=self.cache) as folder:
            tool("apt-get", "download", packages[0], cwd=folder)
            tool("dpkg", "--extract", next(pathlib.Path(folder).glob("*.deb")), self.root)
        release = next((self.root / "lib/modules").iterdir()).name
        tool("depmod", "--basedir", self.root, release)

    def _unpack_image(self):
        """The kernel as an ELF file, which the emulated processor then need not unpack."""
        self.image = self.cache / "vmlinux"
        if self.image.exists():
            return
        packed = (self.root / "boot" / f"vmlinuz-{self.release}").read_bytes()
        at = packed.find(b"\xfd7zXZ\0")
        unpacked = lzma.LZMADecompressor().decompress(packed[at:]) if at >= 0 else b""
        if unpacked[:4] == b"\x7fELF":
            self.image.write_bytes(unpacked)
        else:
            self.image = self.root / "boot" / f"vmlinuz-{self.release}"

    def _module_files(self, names):
        """Paths of the modules and of what they need, each after what it needs."""
        files = []
        for name in names:
            shown = tool("modprobe", "--dry-run", "--show-depends", "--dirname", self.root, "--set-version", self.release, name)
            files += [line.split()[1] for line in shown.splitlines() if line.startswith("insmod ")]
        return list(dict.fromkeys(files))

    def _build_initramfs(self):
        with tempfile.TemporaryDirectory(dir=self.cache) as folder:
            tree = pathlib.Path(folder)
            for name in ("bin", "dev", "proc", "sys", "lower", "upper", "root", "modules"):
                (tree / name).mkdir()
            shutil.copy(shutil.which("busybox", path=PATH), tree / "bin/busybox")
            shutil.copy(HERE / "guest_init", tree / "init")
            (tree / "init").chmod(0o755)
            first = self._module_files(ROOT_MODULES)
            second = [file for file in self._module_files(DEVICE_MODULES) if file not in first]
            for listing, files in (("root.list", first), ("devices.list", second)):
                for file in files:
                    shutil.copy(file, tree / "modules")
                (tree / listing).write_text("".join(f"/modules/{pathlib.Path(file).name}\n" for file in files), encoding="ascii")
            names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
            with open(self.initramfs, "wb") as archive:
                subprocess.run(["cpio", "--create", "--format=newc", "--quiet"], input=names.encode(), stdout=archive, cwd=tree,
                               check=True)


class Machine:
    def __init__(self, cache, processors=2, memory_mib=1536):
        if platform.machine() != "x86_64":
            raise CannotEmulate(f"the kernel fetched is for x86_64, and this machine is {platform.machine()}")
        missing = sorted({package for command, package in COMMANDS.items() if shutil.which(command, path=PATH) is None})
        if missing:
            raise CannotEmulate(f"packages are missing ({', '.join(missing)}); tools/install_dependencies installs them")
        self.kernel = Kernel(cache)
        self.processors = processors
        self.memory_mib = memory_mib

    def run(self, command, shared, limit_s):
        """Runs the command as the guest's root; its output goes to standard output. Returns its status, 124 past the limit."""
        with tempfile.TemporaryDirectory(prefix="softroce.") as folder:
            job = pathlib.Path(folder)
            shared = pathlib.Path(shared).resolve()
            (job / "command").write_text(f"mkdir -p {shlex.quote(str(shared))}\n"
                                         f"mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000 shared {shlex.quote(str(shared))}\n"
                                         f". {shlex.quote(str(HERE / 'guest_setup'))}\n"
                                         f"{shlex.join(map(str, command))} </dev/null >/dev/vport0p1 2>&1\n"
                                         "echo $? >/run/machine/status\n", encoding="utf-8")
            os.mkfifo(job / "output")
            reader = threading.Thread(target=self._pass_on, args=(job / "output",))
            reader.start()
            with open(job / "errors", "wb") as errors:
                qemu = subprocess.Popen(self._command_line(job, shared), stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
            try:
                qemu.wait(limit_s)
            except subprocess.TimeoutExpired:
                return 124
            finally:
                with contextlib.suppress(ProcessLookupError):
                    qemu.kill()
                qemu.wait()
                self._end_reader(job / "output", reader)
            with contextlib.suppress(FileNotFoundError):
                return int((job / "status").read_text(encoding="ascii"))
            console = (job / "console").read_text(errors="replace").splitlines()[-25:]
            raise CannotEmulate("the machine gave no status:\n" + (job / "errors").read_text(errors="replace") + "\n".join(console))

    @staticmethod
    def _pass_on(path):
        with open(path, "rb") as output:
            for line in output:
                os.write(1, line)

    @staticmethod
    def _end_reader(path, reader):
        # A machine that never opened its end leaves the reader waiting for one.
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        reader.join()

    def _command_line(self, job, shared):
        def folder(name, path, readonly=False):
            return ["-fsdev", f"local,id={name},path={path},security_model=none,multidevs=remap" + (",readonly=on" if readonly else ""),
                    "-device", f"virtio-9p-pci,fsdev={name},mount_tag={name}"]

        return ["nice", "-n", "5", "qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max",
                "-smp", str(self.processors), "-m", str(self.memory_mib), "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
                "-kernel", str(self.kernel.image), "-initrd", str(self.kernel.initramfs),
                "-append", "console=ttyS0 quiet panic=-1 mitigations=off nokaslr random.trust_cpu=on tsc=reliable",
                "-serial", f"file:{job}/console",
                # A virtio port, not a console: nothing between changes what is written.
                "-device", "virtio-serial-pci,max_ports=2", "-chardev", f"file,id=output,path={job}/output",
                "-device", "virtserialport,chardev=output,nr=1",
                *folder("host", "/", readonly=True), *folder("job", job), *folder("shared", shared)]
