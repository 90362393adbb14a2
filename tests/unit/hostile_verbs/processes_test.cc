// Adapters of different processes, joined by a fabric that leaves nothing behind.
#ifndef __SANITIZE_THREAD__  // threads of a forked process are beyond it
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/file_descriptor.h"
#include "tests/support/hostile_fabric.h"
#include "tests/unit/hostile_verbs/verbs_side.h"

namespace gimbal::testing {
namespace {

// A forked process with one end of a connection to this one's.
class PeerProcess {
 public:
  // `act` is given the child's end, connected, and the address of the parent's.
  explicit PeerProcess(void (*act)(VerbsSide& side, const SideAddress& peer, int socket)) {
    int sockets[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) throw std::runtime_error("socketpair");
    pid_ = fork();
    if (pid_ == 0) {
      socket_ = FileDescriptor(sockets[1]);
      close(sockets[0]);
      {
        VerbsSide side;
        const SideAddress peer = exchange(side);
        side.connect(peer);
        act(side, peer, socket_.get());
      }
      _exit(0);
    }
    socket_ = FileDescriptor(sockets[0]);
    close(sockets[1]);
  }
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;
  ~PeerProcess() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  // Sends this end's address and returns the other's.
  SideAddress exchange(const VerbsSide& side) {
    const SideAddress own = side.address();
    SideAddress peer = {};
    if (write(socket_.get(), &own, sizeof(own)) != sizeof(own)) throw std::runtime_error("write");
    if (recv(socket_.get(), &peer, sizeof(peer), MSG_WAITALL) != sizeof(peer)) throw std::runtime_error("the peer ended");
    return peer;
  }
  void wait_for_a_byte() {
    char byte = 0;
    if (recv(socket_.get(), &byte, 1, MSG_WAITALL) != 1) throw std::runtime_error("the peer ended");
  }
  void end_suddenly() const { kill(pid_, SIGKILL); }  // not reaped yet

 private:
  pid_t pid_ = -1;
  FileDescriptor socket_;
};

void echo_once(VerbsSide& side, const SideAddress& peer, int socket) {
  side.receive();
  if (write(socket, "r", 1) != 1) return;
  if (side.completion().status != IBV_WC_SUCCESS) return;
  side.write({.from = 0, .to = 100'000, .bytes = 50'000, .immediate = 2}, peer);
  side.completion();
}

TEST(HostileVerbsProcesses, WriteIntoEachOthersMemory) {
  const test::HostileFabric fabric;
  PeerProcess process(echo_once);
  VerbsSide side;
  const SideAddress peer = process.exchange(side);
  ASSERT_TRUE(side.connect(peer));
  ASSERT_EQ(side.receive(), 0);
  process.wait_for_a_byte();
  side.fill(0, 50'000, 1);
  ASSERT_EQ(side.write({.bytes = 50'000, .flags = 0, .immediate = 1}, peer), 0);
  ASSERT_EQ(ntohl(side.completion().imm_data), 2u);
  EXPECT_TRUE(std::equal(side.memory().begin(), side.memory().begin() + 50'000, side.memory().begin() + 100'000));
}

void wait_for_the_end(VerbsSide&, const SideAddress&, int socket) {
  if (write(socket, "r", 1) == 1) pause();
}

TEST(HostileVerbsProcesses, AKilledPeerEndsWithRetriesWhetherItWasReapedOrNot) {
  const test::HostileFabric fabric;
  PeerProcess process(wait_for_the_end);
  VerbsSide side;
  const SideAddress peer = process.exchange(side);
  ASSERT_TRUE(side.connect(peer));
  process.wait_for_a_byte();
  process.end_suddenly();
  // In full flight: some arrive before the signal does its work, and then none.
  ibv_wc wc = {};
  const Deadline deadline = Deadline::after_ms(20'000);
  while (wc.status == IBV_WC_SUCCESS && !deadline.passed()) {
    ASSERT_EQ(side.write({.bytes = 65536}, peer), 0);
    wc = side.completion();
  }
  EXPECT_EQ(wc.status, IBV_WC_RETRY_EXC_ERR);
}

}  // namespace
}  // namespace gimbal::testing
#endif
