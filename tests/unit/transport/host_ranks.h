// Ranks as forked processes on emulated hosts: each runs a body and says in lines what it found.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "base/types.h"
#include "tests/support/hosts.h"

namespace gimbal::testing {

class HostRank {
 public:
  using Say = std::function<void(const std::string& line)>;

  HostRank(const test::Hosts& hosts, size_t host, const std::function<void(const Say&)>& body) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    answer_ = FileDescriptor(ends[0]);
    const FileDescriptor write_end(ends[1]);
    pid_ = fork();
    if (pid_ != 0) return;
    hosts.enter(host);
    body([&](const std::string& line) {
      const std::string whole = line + "\n";
      if (write(write_end.get(), whole.data(), whole.size()) != static_cast<ssize_t>(whole.size())) _exit(1);
    });
    _exit(0);
  }
  HostRank(HostRank&& other) noexcept : pid_(std::exchange(other.pid_, -1)), answer_(std::move(other.answer_)) {}
  HostRank& operator=(HostRank&&) = delete;
  ~HostRank() { end(SIGKILL); }

  // The next line; empty when it has ended without one.
  std::string answer() {
    std::string line;
    for (char letter = 0; read(answer_.get(), &letter, 1) == 1 && letter != '\n';) line += letter;
    return line;
  }
  void end(int signal) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  FileDescriptor answer_;
};

// body(rank) on ranks_per_host[h] ranks of host h each, in rank order; returns their answers.
inline std::vector<std::string> run_on_hosts(const test::Hosts& hosts, const std::vector<Rank>& ranks_per_host,
                                             const std::function<std::string(Rank)>& body) {
  std::vector<HostRank> ranks;
  for (size_t host = 0; host < ranks_per_host.size(); ++host) {
    for (Rank i = 0; i < ranks_per_host[host]; ++i) {
      const auto rank = static_cast<Rank>(ranks.size());
      ranks.emplace_back(hosts, host, [&body, rank](const HostRank::Say& say) { say(body(rank)); });
    }
  }
  std::vector<std::string> answers;
  for (HostRank& rank : ranks) answers.push_back(rank.answer());
  return answers;
}

}  // namespace gimbal::testing
