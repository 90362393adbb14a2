"""Jobs under MPICH's mpiexec (Hydra), from the pip package that bench/compare uses too. """
import unittest

import jobs
from comparison.libraries import LeftOut, mpich_launcher


class Mpich(jobs.JobTest):
    @classmethod
    def setUpClass(cls):
        try:
            cls.mpiexec, cls.environment = mpich_launcher(jobs.BUILD / "compare")
        except LeftOut as reason:
            raise unittest.SkipTest(str(reason)) from reason

    def mpiexec_ranks(self, count, *command, **environment):
        return jobs.run([self.mpiexec, "-launcher", "fork", "-bind-to", "none", "-n", count, *command], **self.environment,
                        **environment)

    def test_ranks_of_one_host_meet_without_a_setting(self):
        self.assert_job_ran(self.mpiexec_ranks(3, jobs.RANK), 3)

    def test_ranks_meet_over_pmi_where_they_are_told_to(self):
        self.assert_job_ran(self.mpiexec_ranks(3, jobs.RANK, GIMBAL_RENDEZVOUS="pmi:"), 3)

    def test_a_shell_between_the_launcher_and_the_rank_does_not_hinder(self):
        self.assert_job_ran(self.mpiexec_ranks(2, "sh", "-c", f"{jobs.RANK}; exit $?"), 2)


if __name__ == "__main__":
    jobs.main()
