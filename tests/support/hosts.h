// Emulated hosts for tests: the tool tests/support/hosts, which says what a host is, as an object.
//
//   auto hosts = Hosts::start(2);
//   if (!hosts.ok()) GTEST_SKIP() << hosts.status().message();
//   run_command((*hosts)->inside(1, {binary("gimbal-run"), ...}));
//
// The hosts end with the object, and with this process however it ends.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "base/status.h"

namespace gimbal::test {

class Hosts {
 public:
  struct Host {
    std::string name;
    pid_t holder;  // whose namespaces they are
    std::string address;
    std::string ipv6;
    std::string link_local;          // with its scope
    std::vector<std::string> enter;  // the command that runs its arguments there
  };

  // The rate of every host's interface as tc writes it ("1gbit"); empty: unlimited. UNSUPPORTED, with the reason, where this
  // machine cannot emulate hosts.
  static Result<std::unique_ptr<Hosts>> start(size_t count, const std::string& rate = "");
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  [[nodiscard]] size_t size() const { return hosts_.size(); }
  [[nodiscard]] const Host& operator[](size_t host) const { return hosts_[host]; }

  // The command line that runs `command` on a host.
  [[nodiscard]] std::vector<std::string> inside(size_t host, const std::vector<std::string>& command) const;

  // Moves the calling process there for good: a forked rank's first act, while it has one thread. Throws std::system_error.
  void enter(size_t host) const;

  // Takes a host off the bridge: its peers hear nothing of it any more, neither data nor a close.
  void cut(size_t host);

 private:
  Hosts() = default;
  Status read_description();

  pid_t tool_ = -1;
  FileDescriptor commands_;
  FileDescriptor answers_;
  std::vector<Host> hosts_;
};

}  // namespace gimbal::test
