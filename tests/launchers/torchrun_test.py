"""Jobs under torchrun, where PyTorch is installed: one agent, and two as on two hosts."""
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

import jobs


def find_torchrun():
    """The command that starts torchrun, or a reason why there is none."""
    for python in (sys.executable, "/usr/bin/python3"):
        if os.path.exists(python) and subprocess.run([python, "-c", "import torch.distributed.run"], capture_output=True, check=False).returncode == 0:
            return [python, "-m", "torch.distributed.run"]
    if shutil.which("torchrun"):
        return ["torchrun"]
    raise unittest.SkipTest("PyTorch is not installed, and with it torchrun")


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Torchrun(jobs.JobTest):
    @classmethod
    def setUpClass(cls):
        logs = tempfile.TemporaryDirectory()
        cls.addClassCleanup(logs.cleanup)
        # Torch 1.13 fails on its own default of no redirection (and on 3) under Python 3.11; a copy of the output in files is as good.
        cls.torchrun = [*find_torchrun(), "-r", "1", "-t", "1", f"--log_dir={logs.name}"]

    def test_ranks_of_one_agent_meet_though_it_holds_the_port(self):
        done = jobs.run([*self.torchrun, "--standalone", "--nproc_per_node=2", "--no_python", jobs.RANK], OMP_NUM_THREADS="1")
        self.assert_job_ran(done, 2)

    def test_ranks_of_two_agents_meet_at_derived_ports(self):
        port = free_port()
        command = [*self.torchrun, "--nnodes=2", "--nproc_per_node=1", "--rdzv_backend=c10d", f"--rdzv_endpoint=127.0.0.1:{port}",
                   "--rdzv_id=two", "--no_python", jobs.RANK]
        environment = jobs.clean_environment(OMP_NUM_THREADS="1")
        agents = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
        ended = [(agent.communicate(timeout=120), agent.returncode) for agent in agents]
        self.assert_job_ran(subprocess.CompletedProcess(command, max(status for _, status in ended), "".join(out for (out, _), _ in ended),
                                                        "".join(err for (_, err), _ in ended)), 2)


if __name__ == "__main__":
    jobs.main()
