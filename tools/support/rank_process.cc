#include "tools/support/rank_process.h"

#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "base/parse.h"

namespace gimbal {
namespace {

Result<std::string> random_name() {
  std::array<unsigned char, 16> bytes;
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return system_error("read random bytes for the job's name", errno);
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string name;
  for (const unsigned char byte : bytes) name.append({kDigits[byte >> 4], kDigits[byte & 15]});
  return name;
}

Result<uint16_t> free_port() {
  const FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener.get(), generic, length) != 0 || getsockname(listener.get(), generic, &length) != 0) {
    return system_error("find a free port for MASTER_PORT", errno);
  }
  return ntohs(address.sin_port);
}

void redirect(int from, int to) {
  if (from >= 0) dup2(from, to);
}

[[noreturn]] void become_rank(const RankStart& start, pid_t launcher) {
  setpgid(0, 0);
  // A launcher that died before the request was in force raises no signal any more.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != launcher) _exit(127);
  redirect(start.input, STDIN_FILENO);
  redirect(start.output, STDOUT_FILENO);
  redirect(start.error, STDERR_FILENO);
  if (!start.cpus.empty()) {
    const cpu_set_t set = to_cpu_set(start.cpus);
    if (sched_setaffinity(0, sizeof(set), &set) != 0)
      dprintf(STDERR_FILENO, "cannot bind to CPUs %s: %m\n", format_cpu_list(start.cpus).c_str());
  }
  // Left over from a job around this one; they would win over what is set here.
  unsetenv("GIMBAL_RANK");
  unsetenv("GIMBAL_SIZE");
  for (const auto& [name, value] : start.environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& argument : start.command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  sigprocmask(SIG_SETMASK, &start.signal_mask, nullptr);
  execvp(arguments[0], arguments.data());
  const int cause = errno;
  // Nothing is lost if this fails: the launcher then sees the exit status.
  if (write(start.failure, &cause, sizeof(cause)) < 0) _exit(126);
  _exit(127);
}

}  // namespace

Result<JobIdentity> make_job_identity() {
  ASSIGN_OR_RETURN(std::string name, random_name());
  ASSIGN_OR_RETURN(std::string key, random_name());
  ASSIGN_OR_RETURN(const uint16_t port, free_port());
  return JobIdentity{"unix://gimbal-" + name, std::move(key), "127.0.0.1", port};
}

Result<JobIdentity> share_job(const std::string& rendezvous) {
  const size_t colon = rendezvous.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    return Status(Code::kInvalidArgument, "\"" + rendezvous + "\" is not host:port");
  }
  constexpr int64_t kLastPort = 65'534;  // MASTER_PORT comes after it
  ASSIGN_OR_RETURN(const int64_t port, parse_integer(rendezvous.substr(colon + 1), 1, kLastPort));
  std::string host = rendezvous.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return JobIdentity{"tcp://" + rendezvous, "", std::move(host), static_cast<uint16_t>(port + 1)};
}

Environment rank_environment(const JobIdentity& job, const RankPlace& place) {
  Environment environment = {{"RANK", std::to_string(place.rank)},
                             {"WORLD_SIZE", std::to_string(place.ranks)},
                             {"LOCAL_RANK", std::to_string(place.local_rank)},
                             {"LOCAL_WORLD_SIZE", std::to_string(place.local_ranks)},
                             {"GROUP_RANK", std::to_string(place.host)},
                             {"MASTER_ADDR", job.master_host},
                             {"MASTER_PORT", std::to_string(job.master_port)},
                             {"GIMBAL_RENDEZVOUS", job.rendezvous}};
  if (!job.key.empty()) environment.emplace_back("GIMBAL_JOB_KEY", job.key);
  return environment;
}

Result<pid_t> start_rank_process(const RankStart& start) {
  const pid_t launcher = getpid();
  const pid_t pid = fork();
  if (pid < 0) return system_error("start a process", errno);
  if (pid == 0) become_rank(start, launcher);
  // Here too, so that the group exists when this function returns; it fails harmlessly after the child's exec.
  setpgid(pid, pid);
  return pid;
}

}  // namespace gimbal
