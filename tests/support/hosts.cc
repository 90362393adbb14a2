#include "tests/support/hosts.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "tests/support/folders.h"

namespace gimbal::test {
namespace {

std::pair<FileDescriptor, FileDescriptor> make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

// Without its end; what there is when the writer has gone.
std::string read_line(const FileDescriptor& from) {
  std::string line;
  char letter = 0;
  while (true) {
    const ssize_t bytes = read(from.get(), &letter, 1);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0 || letter == '\n') return line;
    line += letter;
  }
}

FileDescriptor open_path(const std::filesystem::path& path) {
  FileDescriptor opened(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened.valid()) throw std::system_error(errno, std::generic_category(), path);
  return opened;
}

void check(int result, const char* what) {
  if (result != 0) throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

Result<std::unique_ptr<Hosts>> Hosts::start(size_t count, const std::string& rate) {
#ifdef __SANITIZE_THREAD__
  return Status(Code::kUnsupported, "a process under ThreadSanitizer has a second thread, and cannot move to an emulated host");
#endif
  std::unique_ptr<Hosts> hosts(new Hosts());
  auto [commands_end, commands] = make_pipe();
  auto [answers, answers_end] = make_pipe();
  std::vector<std::string> arguments = {source_file("tests/support/hosts"), "--hosts=" + std::to_string(count)};
  if (!rate.empty()) arguments.push_back("--rate=" + rate);
  arguments.emplace_back("serve");
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  hosts->tool_ = fork();
  if (hosts->tool_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(commands_end.get(), STDIN_FILENO);
    dup2(answers_end.get(), STDOUT_FILENO);
    dup2(answers_end.get(), STDERR_FILENO);
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  hosts->commands_ = std::move(commands);
  hosts->answers_ = std::move(answers);
  answers_end.reset();
  RETURN_IF_ERROR(hosts->read_description());
  return hosts;
}

Status Hosts::read_description() {
  const std::string line = read_line(answers_);
  const nlohmann::json described = nlohmann::json::parse(line, nullptr, false);
  if (!described.is_object()) return Status(Code::kUnsupported, line.empty() ? "tests/support/hosts did not start" : line);
  for (const nlohmann::json& host : described.at("hosts")) {
    hosts_.push_back({.name = host.at("name"),
                      .holder = host.at("pid"),
                      .address = host.at("address"),
                      .ipv6 = host.at("ipv6"),
                      .link_local = host.at("link_local"),
                      .enter = host.at("enter")});
  }
  return {};
}

Hosts::~Hosts() {
  commands_.reset();
  // A forked rank that still runs holds a copy of the pipe.
  if (tool_ > 0) kill(tool_, SIGTERM);
  while (tool_ > 0 && waitpid(tool_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::vector<std::string> Hosts::inside(size_t host, const std::vector<std::string>& command) const {
  std::vector<std::string> whole = hosts_[host].enter;
  whole.insert(whole.end(), command.begin(), command.end());
  return whole;
}

void Hosts::enter(size_t host) const {
  const std::filesystem::path holder = "/proc/" + std::to_string(hosts_[host].holder);
  const std::filesystem::path here = std::filesystem::current_path();
  const FileDescriptor root = open_path(holder / "root");
  struct Namespace {
    FileDescriptor opened;
    int kind;
  };
  std::vector<Namespace> namespaces;
  if (geteuid() != 0) namespaces.push_back({open_path(holder / "ns/user"), CLONE_NEWUSER});  // the tool made one: see there
  namespaces.push_back({open_path(holder / "ns/net"), CLONE_NEWNET});
  namespaces.push_back({open_path(holder / "ns/uts"), CLONE_NEWUTS});
  namespaces.push_back({open_path(holder / "ns/ipc"), CLONE_NEWIPC});
  namespaces.push_back({open_path(holder / "ns/mnt"), CLONE_NEWNS});
  for (const Namespace& one : namespaces) check(setns(one.opened.get(), one.kind), "setns");
  // A mount namespace's root is the machine's: the holder may be in a chroot.
  check(fchdir(root.get()), "fchdir");
  check(chroot("."), "chroot");
  std::filesystem::current_path(here);
}

void Hosts::cut(size_t host) {
  const std::string command = "cut " + std::to_string(host) + "\n";
  if (write(commands_.get(), command.data(), command.size()) != static_cast<ssize_t>(command.size()) ||
      read_line(answers_) + "\n" != command) {
    throw std::runtime_error("tests/support/hosts did not cut off host " + std::to_string(host));
  }
}

}  // namespace gimbal::test
