"""Jobs under Slurm: munged, slurmctld and one slurmd with a configuration of their own, for the time of the test."""
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

import jobs

CONFIGURATION = """ClusterName=gimbal
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=socket={folder}/munge/socket
SlurmctldPort={controller_port}
SlurmdPort={node_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Cluster:
    """One node that is its own controller."""

    def __init__(self):
        for program in ("munged", "slurmctld", "slurmd", "srun", "sinfo"):
            if not shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin"):
                raise unittest.SkipTest(f"{program} is missing (Debian's slurm-wlm and munge)")
        if os.geteuid() != 0:
            raise unittest.SkipTest("slurmd starts tasks as root only")
        self.temporary = tempfile.TemporaryDirectory(prefix="gimbal-slurm-")
        self.folder = pathlib.Path(self.temporary.name)
        os.chmod(self.folder, 0o755)
        self.daemons = []
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self):
        for name in ("munge", "state", "spool"):
            (self.folder / name).mkdir(mode=0o755)
        key = self.folder / "munge/key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        configuration = self.folder / "slurm.conf"
        configuration.write_text(CONFIGURATION.format(
            folder=self.folder, host=socket.gethostname(), user="root", controller_port=free_port(), node_port=free_port(),
            cpus=os.cpu_count()), encoding="utf-8")
        self.environment = {"SLURM_CONF": str(configuration)}
        munge = self.folder / "munge"
        self.daemon("munged", "--foreground", "--force", f"--socket={munge}/socket", f"--key-file={key}", f"--log-file={munge}/log",
                    f"--pid-file={munge}/pid", f"--seed-file={munge}/seed")
        self.wait("munged opens its socket", (munge / "socket").exists)
        self.daemon("slurmctld", "-D")
        self.daemon("slurmd", "-D")
        self.wait("the node is idle", lambda: "idle" in self.run("sinfo", "--noheader", "-o", "%T").stdout)

    def daemon(self, *command):
        log = open(self.folder / f"{command[0]}.out", "w", encoding="utf-8")
        path = shutil.which(command[0], path=f"{os.environ['PATH']}:/usr/sbin")
        self.daemons.append(subprocess.Popen([path, *command[1:]], stdout=log, stderr=log, env=jobs.clean_environment(**self.environment)))
        log.close()

    def wait(self, what, condition, seconds=60):
        end = time.monotonic() + seconds
        while not condition():
            for daemon in self.daemons:
                if daemon.poll() is not None:
                    name = pathlib.Path(daemon.args[0]).name
                    log = (self.folder / f"{name}.out").read_text(encoding="utf-8").strip().splitlines()[-1:]
                    raise unittest.SkipTest(f"{name} does not run here: {log[0] if log else 'it says nothing'}")
            if time.monotonic() > end:
                raise unittest.SkipTest(f"Slurm does not come up here within {seconds} s: waiting until {what}")
            time.sleep(0.1)

    def run(self, *command, **environment):
        return jobs.run(command, **self.environment, **environment)

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.temporary.cleanup()


class Slurm(jobs.JobTest):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()

    def srun(self, *arguments, **environment):
        return self.cluster.run("srun", "--overcommit", *arguments, **environment)

    def test_tasks_of_a_step_meet_by_its_name(self):
        self.assert_job_ran(self.srun("-n", "2", jobs.RANK), 2)

    def test_tasks_that_are_offered_pmi2_meet_by_the_steps_name_too(self):
        self.assert_job_ran(self.srun("-n", "2", "--mpi=pmi2", jobs.RANK), 2)

    def test_a_step_that_is_smaller_than_its_job_counts(self):
        done = self.cluster.run("salloc", "-n", "2", "--overcommit", "srun", "--overcommit", "-n", "1", jobs.RANK)
        self.assert_job_ran(done, 1)

    def test_torchruns_variables_come_before_slurms(self):
        script = f"RANK=$((1 - $SLURM_PROCID)) WORLD_SIZE=2 GIMBAL_RENDEZVOUS=unix://slurm-test-$SLURM_JOB_ID exec {jobs.RANK}"
        done = self.srun("-n", "2", "sh", "-c", script)
        self.assert_job_ran(done, 2)
        self.assertIn("RANK and WORLD_SIZE say rank 1 of 2, but SLURM_PROCID and SLURM_STEP_NUM_TASKS say 0 of 2", done.stderr)


if __name__ == "__main__":
    jobs.main()
