#include "tools/support/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <optional>

#include "base/deadline.h"
#include "tools/support/line_prefixer.h"
#include "tools/support/rank_process.h"
#include "tools/support/stray_guard.h"
#include "tools/support/terminal_input.h"

namespace gimbal {
namespace {

// How long to wait, after the last rank has ended, for output that processes outside the ranks' groups still hold open.
constexpr int64_t kDrainMs = 1000;

struct RunningRank {
  pid_t pid = -1;
  bool running = true;
  std::vector<LinePrefixer> streams;
};

// Handled signals are blocked from construction to destruction and read from a descriptor instead.
class SignalReader {
 public:
  SignalReader() {
    sigset_t handled;
    sigemptyset(&handled);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&handled, number);
    sigprocmask(SIG_BLOCK, &handled, &before_);
    fd_ = FileDescriptor(signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  SignalReader(const SignalReader&) = delete;
  SignalReader& operator=(const SignalReader&) = delete;
  ~SignalReader() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] const sigset_t& mask_before() const { return before_; }
  std::optional<int> next() {
    signalfd_siginfo info;
    if (read(fd_.get(), &info, sizeof(info)) != sizeof(info)) return std::nullopt;
    return static_cast<int>(info.ssi_signo);
  }

 private:
  sigset_t before_;
  FileDescriptor fd_;
};

class Launcher {
 public:
  Launcher(const Job& job, StrayGuard guard)
      : job_(job),
        guard_(std::move(guard)),
        timeout_(job.timeout_ms > 0 ? Deadline::after_ms(job.timeout_ms) : Deadline::never()),
        kill_(Deadline::never()) {}
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  ~Launcher() {
    signal_all(SIGKILL);
    for (const RunningRank& rank : ranks_) waitpid(rank.pid, nullptr, 0);
  }

  Status start_all();
  int run_to_end();

 private:
  Status start(Rank rank, RankStart& start);
  void wait_for_event(Deadline until);
  void handle_signals();
  void collect_ended();
  void report(Rank rank, int how, int detail);
  void stop(int number);
  void signal_all(int number) const;
  void drain();
  void say(const std::string& sentence) const { write_all(STDERR_FILENO, job_.launcher + ": " + sentence + "\n"); }
  [[nodiscard]] size_t running() const;

  const Job& job_;
  // Destroyed after the ranks are stopped and reaped.
  StrayGuard guard_;
  SignalReader signals_;
  TerminalInput input_;
  std::vector<RunningRank> ranks_;  // of this host
  Rank first_ = 0;                  // of them, in the job
  std::optional<int> status_;       // of the job, once something has gone wrong
  bool stopping_ = false;
  Deadline timeout_;
  Deadline kill_;
};

Status open_pipe(FileDescriptor& read_end, FileDescriptor& write_end) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_error("open a pipe", errno);
  read_end = FileDescriptor(ends[0]);
  write_end = FileDescriptor(ends[1]);
  return {};
}

// Two pipes a rank, and the soft limit is 1024 on most machines. Raised only when it must be, because the ranks inherit it.
void raise_descriptor_limit(Rank ranks) {
  rlimit limit;
  const rlim_t needed = 2 * static_cast<rlim_t>(ranks) + 64;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  limit.rlim_cur = std::min(needed, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

Status Launcher::start(Rank rank, RankStart& start) {
  RunningRank running;
  FileDescriptor write_ends[2];
  if (job_.prefix_output) {
    const std::string prefix = "[" + std::to_string(first_ + rank) + "] ";
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
      FileDescriptor read_end;
      RETURN_IF_ERROR(open_pipe(read_end, write_ends[stream - STDOUT_FILENO]));
      fcntl(read_end.get(), F_SETFL, O_NONBLOCK);
      running.streams.emplace_back(std::move(read_end), stream, prefix);
    }
  }
  start.output = write_ends[0].get();
  start.error = write_ends[1].get();
  ASSIGN_OR_RETURN(running.pid, start_rank_process(start));
  guard_.watch(running.pid);
  ranks_.push_back(std::move(running));
  return {};
}

Status Launcher::start_all() {
  raise_descriptor_limit(job_.ranks);
  ASSIGN_OR_RETURN(const JobIdentity identity, job_.ranks_per_host.empty() ? make_job_identity() : share_job(job_.rendezvous));
  RankPlace place = {.local_ranks = job_.ranks, .ranks = job_.ranks, .host = job_.host};
  if (!job_.ranks_per_host.empty()) {
    place.ranks = std::accumulate(job_.ranks_per_host.begin(), job_.ranks_per_host.end(), Rank{0});
    first_ =
        std::accumulate(job_.ranks_per_host.begin(), job_.ranks_per_host.begin() + static_cast<ptrdiff_t>(job_.host), Rank{0});
  }
  const BindingPlan plan = plan_binding(job_.binding, job_.ranks, allowed_cpus(), "/sys");
  if (!plan.notice.empty()) say(plan.notice);
  FileDescriptor failure_read, failure_write;
  RETURN_IF_ERROR(open_pipe(failure_read, failure_write));
  const FileDescriptor no_input(open("/dev/null", O_RDONLY | O_CLOEXEC));
  RETURN_IF_ERROR(input_.open());
  for (Rank rank = 0; rank < job_.ranks; ++rank) {
    RankStart start = {};
    start.command = job_.command;
    place.rank = first_ + rank;
    place.local_rank = rank;
    start.environment = rank_environment(identity, place);
    if (!plan.cpus.empty()) start.cpus = plan.cpus[static_cast<size_t>(rank)];
    start.signal_mask = signals_.mask_before();
    start.input = rank == 0 ? input_.rank_end() : no_input.get();
    start.failure = failure_write.get();
    if (const Status status = this->start(rank, start); !status.ok()) {
      return {status.code(), "rank " + std::to_string(first_ + rank) + ": " + status.message()};
    }
  }
  input_.close_rank_end();
  // Every exec closes one copy of the write end; the stream ends when the last has succeeded.
  failure_write.reset();
  int cause = 0;
  ssize_t bytes;
  do {
    bytes = read(failure_read.get(), &cause, sizeof(cause));
  } while (bytes < 0 && errno == EINTR);
  if (bytes == 0) return {};
  return system_error("cannot run \"" + job_.command[0] + "\"", cause);
}

int Launcher::run_to_end() {
  while (running() > 0) {
    wait_for_event(kill_.at_ns() < timeout_.at_ns() ? kill_ : timeout_);
    handle_signals();
    if (timeout_.passed()) {
      timeout_ = Deadline::never();
      say("the job has taken longer than " + std::to_string(job_.timeout_ms) + " ms; stopping all ranks");
      if (!status_) status_ = kTimeoutStatus;
      stop(SIGTERM);
    }
    if (kill_.passed()) {
      kill_ = Deadline::never();
      say("not all ranks have ended " + std::to_string(job_.grace_ms) + " ms after they were told to; killing them");
      signal_all(SIGKILL);
    }
  }
  signal_all(SIGKILL);  // what the ranks have left behind in their groups
  drain();
  return status_.value_or(0);
}

void Launcher::wait_for_event(Deadline until) {
  std::vector<pollfd> events = {{signals_.fd(), POLLIN, 0}, input_.awaited()};
  std::vector<LinePrefixer*> streams;
  for (RunningRank& rank : ranks_) {
    for (LinePrefixer& stream : rank.streams) {
      if (stream.fd() < 0) continue;
      events.push_back({stream.fd(), POLLIN, 0});
      streams.push_back(&stream);
    }
  }
  if (poll(events.data(), events.size(), until.remaining_ms()) <= 0) return;
  if (events[1].revents != 0) input_.pump();
  for (size_t i = 0; i < streams.size(); ++i) {
    if (events[i + 2].revents != 0) streams[i]->pump();
  }
}

void Launcher::handle_signals() {
  bool child_ended = false;
  while (const std::optional<int> number = signals_.next()) {
    if (*number == SIGCHLD) {
      child_ended = true;
    } else if (stopping_) {
      signal_all(SIGKILL);  // asked twice
    } else {
      say("stopping all ranks: signal " + std::to_string(*number) + " (" + strsignal(*number) + ")");
      stop(*number);
    }
  }
  if (child_ended) collect_ended();
}

// Leaders stay unreaped until the job has ended, so that their numbers, and those of their groups, belong to nobody else.
void Launcher::collect_ended() {
  struct Failure {
    Rank rank;
    int how;
    int detail;
  };
  std::vector<Failure> failures;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    siginfo_t info = {};
    if (!ranks_[i].running || waitid(P_PID, static_cast<id_t>(ranks_[i].pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0) {
      continue;
    }
    ranks_[i].running = false;
    if (info.si_code == CLD_EXITED && info.si_status == 0) continue;
    const Failure failure = {static_cast<Rank>(i), info.si_code, info.si_status};
    // A rank that was killed takes its peers down with an exit status; seen together, the killed one is the cause.
    failures.insert(info.si_code == CLD_EXITED ? failures.end() : failures.begin(), failure);
  }
  for (const Failure& failure : failures) report(failure.rank, failure.how, failure.detail);
}

void Launcher::report(Rank rank, int how, int detail) {
  const bool exited = how == CLD_EXITED;
  const bool first = !status_;
  if (first) status_ = exited ? detail : 128 + detail;
  // What ranks do after they were told to stop is no news.
  if (stopping_) return;
  const std::string who =
      "rank " + std::to_string(first_ + rank) + " (pid " + std::to_string(ranks_[static_cast<size_t>(rank)].pid) + ")";
  const std::string fate = exited ? " exited with status " + std::to_string(detail)
                                  : " died by signal " + std::to_string(detail) + " (" + strsignal(detail) + ")";
  say(who + fate + (running() > 0 ? "; stopping the other ranks" : ""));
  if (running() > 0) stop(SIGTERM);
}

void Launcher::stop(int number) {
  stopping_ = true;
  kill_ = Deadline::after_ms(job_.grace_ms);
  signal_all(number);
  signal_all(SIGCONT);  // a stopped rank would not notice
}

void Launcher::signal_all(int number) const {
  for (const RunningRank& rank : ranks_) kill(-rank.pid, number);
}

void Launcher::drain() {
  const Deadline until = Deadline::after_ms(kDrainMs);
  const auto open = [this] {
    for (const RunningRank& rank : ranks_) {
      for (const LinePrefixer& stream : rank.streams) {
        if (stream.fd() >= 0) return true;
      }
    }
    return false;
  };
  while (open() && !until.passed()) wait_for_event(until);
  for (RunningRank& rank : ranks_) {
    for (LinePrefixer& stream : rank.streams) stream.finish();
  }
}

size_t Launcher::running() const {
  size_t count = 0;
  for (const RunningRank& rank : ranks_) count += rank.running ? 1 : 0;
  return count;
}

}  // namespace

Result<int> run_job(const Job& job) {
  ASSIGN_OR_RETURN(StrayGuard guard, StrayGuard::start());
  Launcher launcher(job, std::move(guard));
  RETURN_IF_ERROR(launcher.start_all());
  return launcher.run_to_end();
}

}  // namespace gimbal
