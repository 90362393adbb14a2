"""Emulated hosts: what each has of its own, that they reach each other and nothing else, and that nothing of them remains."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

HOSTS = pathlib.Path(__file__).resolve().parents[1] / "support/hosts"
CANNOT_EMULATE = 77

# Listens on a free port of argv[1], prints it, sends one line to whoever connects.
SERVER = """
import socket, sys
with socket.create_server((sys.argv[1], 0), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET) as server:
    print(server.getsockname()[1], flush=True)
    connection, _ = server.accept()
    connection.sendall(socket.gethostname().encode())
"""
CLIENT = "import socket, sys; print(socket.create_connection((sys.argv[1], int(sys.argv[2])), 5).recv(100).decode())"


def run_on_hosts(count, script, *options):
    """The lines that a shell script prints on each host, sorted."""
    command = [HOSTS, f"--hosts={count}", *options, "run", "--", "sh", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return sorted(done.stdout.splitlines())


class Served:
    """Hosts that are kept while the context lasts."""

    def __init__(self, count=2):
        self.tool = subprocess.Popen([HOSTS, f"--hosts={count}", "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.hosts = json.loads(self.tool.stdout.readline())["hosts"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tool.stdin.close()
        self.tool.wait(timeout=30)
        self.tool.stdout.close()

    def start(self, host, *command):
        return subprocess.Popen([*self.hosts[host]["enter"], *command], stdout=subprocess.PIPE, text=True)

    def output(self, host, *command):
        return subprocess.run([*self.hosts[host]["enter"], *command], capture_output=True, text=True, timeout=60, check=False).stdout


def is_gone(pid, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if "\nState:\tZ" in pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii"):
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


class HostsTest(unittest.TestCase):
    def test_each_has_its_own_name_interfaces_and_shared_memory(self):
        lines = run_on_hosts(3, "echo $(hostname) $(ls /sys/class/net) $(ls -A /dev/shm | wc -l)")
        self.assertEqual(lines, ["host0 eth0 lo 0", "host1 eth0 lo 0", "host2 eth0 lo 0"])

    def test_the_working_directory_and_the_arguments_are_the_callers(self):
        lines = run_on_hosts(2, "echo {host} of {hosts} {name} {address0} {other} $PWD")
        here = os.getcwd()
        self.assertEqual(lines, [f"0 of 2 host0 10.77.0.1 {{other}} {here}", f"1 of 2 host1 10.77.0.1 {{other}} {here}"])

    def test_they_reach_each_other_by_name_and_by_every_kind_of_address(self):
        with Served() as served:
            for reached in ("name", "address", "ipv6", "link_local"):
                listened = "::" if reached == "link_local" else served.hosts[1]["ipv6" if reached == "ipv6" else "address"]
                server = served.start(1, sys.executable, "-c", SERVER, listened)
                port = server.stdout.readline().strip()
                told = served.output(0, sys.executable, "-c", CLIENT, served.hosts[1][reached], port)
                self.assertEqual(told.strip(), "host1", reached)
                server.stdout.close()
                server.wait()

    def test_the_machine_sees_none_of_their_interfaces_and_they_none_of_its(self):
        before = sorted(os.listdir("/sys/class/net"))
        with Served() as served:
            self.assertEqual(sorted(os.listdir("/sys/class/net")), before)
            self.assertEqual(served.output(0, "ip", "route", "show", "default"), "")

    def test_a_rate_limits_the_interface_of_every_host(self):
        lines = run_on_hosts(2, "tc qdisc show dev eth0 | grep -o 'tbf.* rate 100Mbit'", "--rate=100mbit")
        self.assertEqual(len(lines), 2)

    def test_a_host_that_is_cut_off_has_no_network_any_more(self):
        with Served() as served:
            served.tool.stdin.write("cut 1\n")
            served.tool.stdin.flush()
            self.assertEqual(served.tool.stdout.readline(), "cut 1\n")
            self.assertNotIn("eth0", served.output(1, "ls", "/sys/class/net"))
            self.assertIn("eth0", served.output(0, "ls", "/sys/class/net"))

    def test_the_first_failure_is_the_status_and_ends_the_others(self):
        command = [HOSTS, "run", "--", "sh", "-c", "[ {host} = 0 ] && exec sleep 1000; exit 9"]
        self.assertEqual(subprocess.run(command, timeout=60, check=False).returncode, 9)

    def test_nothing_outlives_a_tool_that_is_killed(self):
        command = [HOSTS, "run", "--", "sh", "-c", "echo $$; exec sleep 1000"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as tool:
            ranks = [int(tool.stdout.readline()) for _ in range(2)]
            children = pathlib.Path(f"/proc/{tool.pid}/task/{tool.pid}/children").read_text(encoding="ascii").split()
            tool.send_signal(signal.SIGKILL)
        self.assertEqual(len(children), 4)
        for pid in [*ranks, *children]:
            self.assertTrue(is_gone(pid), pid)

    def test_an_ordinary_user_has_hosts_too_where_the_kernel_lets_it(self):
        if os.geteuid() != 0:
            self.skipTest("every other test is of an ordinary user already")
        as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        allowed = subprocess.run([*as_nobody, "sh", "-c", f"unshare -Urn true && test -r {HOSTS}"], check=False, capture_output=True)
        if allowed.returncode != 0:
            self.skipTest("the user nobody may not make a user namespace here, or not read the sources")
        command = [*as_nobody, "/usr/bin/python3", HOSTS, "run", "--", "hostname"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(sorted(done.stdout.split()), ["host0", "host1"], done.stderr)

    def test_a_machine_that_cannot_says_why(self):
        limit = f"echo 0 > /proc/sys/user/max_net_namespaces && exec {HOSTS} check"
        done = subprocess.run(["unshare", "--user", "--map-root-user", "sh", "-c", limit], capture_output=True, text=True, check=False)
        if "unshare" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, CANNOT_EMULATE)
        self.assertIn("this machine cannot emulate hosts: cannot make a network namespace: No space left", done.stderr)


if __name__ == "__main__":
    checked = subprocess.run([HOSTS, "check"], check=False)
    if checked.returncode == CANNOT_EMULATE:
        sys.exit(CANNOT_EMULATE)
    unittest.main()
