// Where ranks meet, by launcher. The launchers themselves are in tests/launchers.
#include "runtime/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/runtime/no_launcher.h"

namespace gimbal::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

LaunchedAs launched_by(const std::string& rank_variable, Rank rank = 0) {
  LaunchedAs launched;
  launched.rank = rank;
  launched.size = 2;
  launched.rank_variable = rank_variable;
  return launched;
}

std::string address_by(const std::string& rank_variable, Rank rank = 0) {
  const Result<Rendezvous> rendezvous = read_rendezvous(launched_by(rank_variable, rank));
  return rendezvous.ok() ? rendezvous->address : rendezvous.status().message();
}

TEST(Rendezvous, ComesFromGimbalsVariableFirst) {
  NoLauncher environment;
  environment.set("MASTER_ADDR", "10.0.0.1");
  environment.set("MASTER_PORT", "4000");
  environment.set("GIMBAL_RENDEZVOUS", "unix://here");
  EXPECT_EQ(address_by(""), "unix://here");
}

TEST(Rendezvous, ComesFromMasterAddressAndPort) {
  NoLauncher environment;
  environment.set("MASTER_PORT", "4000");
  environment.set("MASTER_ADDR", "10.0.0.1");
  EXPECT_EQ(address_by("RANK"), "tcp://10.0.0.1:4000");
  environment.set("MASTER_ADDR", "fe80::1");
  EXPECT_EQ(address_by("RANK"), "tcp://[fe80::1]:4000");
  environment.set("MASTER_ADDR", "[fe80::1]");
  EXPECT_EQ(address_by("RANK"), "tcp://[fe80::1]:4000");
}

class Torchrun : public testing::Test {
 protected:
  Torchrun() {
    environment_.set("MASTER_ADDR", "node1");
    environment_.set("MASTER_PORT", "29500");
    environment_.set("TORCHELASTIC_RUN_ID", "run-7");
    environment_.set("WORLD_SIZE", "4");
    environment_.set("LOCAL_WORLD_SIZE", "2");
  }
  NoLauncher environment_;
};

TEST_F(Torchrun, OverSeveralHostsLeavesTheAgentsPortAlone) {
  const std::string address = address_by("RANK");
  EXPECT_THAT(address, AllOf(StartsWith("tcp://node1:"), Not(HasSubstr(":29500"))));
  EXPECT_EQ(std::ranges::count(address, ','), 7);
  EXPECT_EQ(address_by("RANK", 1), address);
}

TEST_F(Torchrun, StartedAgainMeetsElsewhere) {
  const std::string before = address_by("RANK");
  environment_.set("TORCHELASTIC_RESTART_COUNT", "1");
  EXPECT_NE(address_by("RANK"), before);
}

TEST_F(Torchrun, OnOneHostMeetsAtAnAbstractSocket) {
  environment_.set("LOCAL_WORLD_SIZE", "4");
  EXPECT_THAT(address_by("RANK"), StartsWith("unix://"));
}

TEST(Rendezvous, OfASlurmStepOnOneNodeIsAnAbstractSocket) {
  NoLauncher environment;
  environment.set("SLURM_JOB_ID", "77");
  environment.set("SLURM_STEP_ID", "3");
  const std::string address = address_by("SLURM_PROCID");
  EXPECT_THAT(address, StartsWith("unix://"));
  EXPECT_EQ(address_by("SLURM_PROCID", 1), address);
  environment.set("SLURM_STEP_ID", "4");
  EXPECT_NE(address_by("SLURM_PROCID"), address);
}

TEST(Rendezvous, OfASlurmStepOnSeveralNodesIsOnTheFirstOfThem) {
  NoLauncher environment;
  environment.set("SLURM_JOB_ID", "77");
  environment.set("SLURM_STEP_NUM_NODES", "3");
  environment.set("SLURM_STEP_NODELIST", "gpu[07-08],login");
  EXPECT_THAT(address_by("SLURM_PROCID"), StartsWith("tcp://gpu07:"));
  environment.set("SLURM_STEP_NODELIST", "gpu[07-");
  EXPECT_THAT(address_by("SLURM_PROCID"), HasSubstr("SLURM_STEP_NODELIST: host list \"gpu[07-\": a bracket is not closed"));
}

TEST(Rendezvous, OfASlurmStepWithPmi2IsThatOfTheStep) {
  NoLauncher environment;
  environment.set("SLURM_JOB_ID", "77");
  environment.set("SLURM_STEP_ID", "3");
  const std::string step = address_by("SLURM_PROCID");
  environment.set("PMI_JOBID", "77.3");
  environment.set("PMI_FD", "7");
  EXPECT_EQ(address_by("PMI_RANK"), step);
}

TEST(Rendezvous, OfAnMpiJobOnOneHostIsAnAbstractSocket) {
  NoLauncher environment;
  environment.set("PMIX_NAMESPACE", "job-9");
  environment.set("OMPI_COMM_WORLD_LOCAL_SIZE", "2");
  const std::string address = address_by("OMPI_COMM_WORLD_RANK");
  EXPECT_THAT(address, StartsWith("unix://"));
  EXPECT_EQ(address_by("OMPI_COMM_WORLD_RANK", 1), address);
  environment.set("PMIX_NAMESPACE", "job-10");
  EXPECT_NE(address_by("OMPI_COMM_WORLD_RANK"), address);
}

TEST(Rendezvous, OfAnMpiJobOnSeveralHostsIsTheLaunchersOwnExchange) {
  NoLauncher environment;
  environment.set("OMPI_COMM_WORLD_LOCAL_SIZE", "1");
  EXPECT_THAT(address_by("OMPI_COMM_WORLD_RANK"), HasSubstr("set GIMBAL_RENDEZVOUS=tcp://host:port"));
  environment.set("PMIX_NAMESPACE", "job-9");
  EXPECT_EQ(address_by("OMPI_COMM_WORLD_RANK"), "pmix:");
  environment.set("PMI_FD", "7");
  environment.set("MPI_LOCALNRANKS", "1");
  EXPECT_EQ(address_by("PMI_RANK"), "pmi:");
  environment.set("MPI_LOCALNRANKS", "2");
  EXPECT_THAT(address_by("PMI_RANK"), StartsWith("unix://"));
}

TEST(Rendezvous, PortThatIsNoneIsAnErrorThatNamesIt) {
  for (const char* port : {"0", "65536", "http", "-1"}) {
    NoLauncher environment;
    environment.set("MASTER_ADDR", "10.0.0.1");
    environment.set("MASTER_PORT", port);
    EXPECT_THAT(address_by("RANK"), AllOf(HasSubstr("MASTER_PORT"), HasSubstr(port)));
  }
}

TEST(Rendezvous, NobodyNamedIsAnErrorThatSaysWhatToSet) {
  NoLauncher environment;
  environment.set("MASTER_ADDR", "10.0.0.1");  // without a port
  EXPECT_THAT(address_by("RANK"), AllOf(HasSubstr("GIMBAL_RENDEZVOUS"), HasSubstr("MASTER_PORT")));
}

}  // namespace
}  // namespace gimbal::test
