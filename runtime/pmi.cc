#include "runtime/pmi.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <mutex>

#include "base/environment.h"
#include "base/parse.h"
#include "base/process_registry.h"
#include "transport/bytes.h"
#include "transport/socket.h"

namespace gimbal {
namespace {

constexpr std::string_view kPeer = "the launcher (PMI)";
constexpr size_t kLongestLine = 64 << 10;

struct ProcessSession {
  std::mutex mutex;
  std::shared_ptr<PmiSession> session;
  pid_t pid = 0;
};

ProcessSession& process_session() { return ProcessRegistry::instance().permanent<ProcessSession>("PMI session"); }

void finalize_process_session() {
  constexpr int64_t kAnswersWithinMs = 5000;
  ProcessSession& process = process_session();
  // A forked child has no say in its parent's session. A launcher that has gone needs no farewell.
  if (process.pid == getpid()) static_cast<void>(process.session->finalize(Deadline::after_ms(kAnswersWithinMs)));
}

}  // namespace

std::map<std::string, std::string> parse_pmi_line(std::string_view line) {
  std::map<std::string, std::string> fields;
  while (!line.empty()) {
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) break;
    const std::string name(line.substr(0, equals));
    line.remove_prefix(equals + 1);
    const size_t end = name == "value" || name == "msg" ? line.size() : std::min(line.find(' '), line.size());
    fields[name] = std::string(line.substr(0, end));
    line.remove_prefix(end);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  }
  return fields;
}

Result<std::shared_ptr<PmiSession>> PmiSession::of_this_process(Deadline deadline) {
  ProcessSession& process = process_session();
  const std::lock_guard<std::mutex> lock(process.mutex);
  if (process.session == nullptr) {
    ASSIGN_OR_RETURN(PmiSession session, open(deadline));
    process.session = std::make_shared<PmiSession>(std::move(session));
    process.pid = getpid();
    std::atexit(finalize_process_session);
  }
  return process.session;
}

Result<PmiSession> PmiSession::open(Deadline deadline) {
  if (const auto text = read_environment("PMI_FD")) {
    const Result<int64_t> fd = parse_integer(*text, 0, 1 << 20);
    if (!fd.ok()) return Status(Code::kInvalidArgument, "PMI_FD: " + fd.status().message());
    // The launcher's socket stays open for whoever uses it after this session.
    FileDescriptor copy(fcntl(static_cast<int>(*fd), F_DUPFD_CLOEXEC, 0));
    if (!copy.valid()) return system_error("PMI_FD: descriptor " + *text, errno);
    return over(std::move(copy), deadline);
  }
  const auto port = read_environment("PMI_PORT");
  if (!port)
    return Status(Code::kInvalidArgument,
                  "neither PMI_FD nor PMI_PORT is set: this program was not started by a launcher with PMI");
  ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses, resolve_tcp(*port));
  ConnectAttempt attempt = connect_to(addresses.front(), deadline);
  if (!attempt.fd.valid()) return system_error("PMI_PORT: connecting to " + *port, std::max(attempt.error_number, 0));
  PmiSession session(std::move(attempt.fd));
  RETURN_IF_ERROR(session.connect_by_port(deadline));
  RETURN_IF_ERROR(session.greet(deadline));
  return session;
}

Result<PmiSession> PmiSession::over(FileDescriptor socket, Deadline deadline) {
  PmiSession session(std::move(socket));
  RETURN_IF_ERROR(session.greet(deadline));
  return session;
}

// Says which process this is; the launcher answers with its size, rank and wish for debugging.
Status PmiSession::connect_by_port(Deadline deadline) {
  const std::string id = read_environment("PMI_ID").value_or(read_environment("PMI_RANK").value_or("0"));
  RETURN_IF_ERROR(ask("cmd=initack pmiid=" + id, "initack", deadline).status());
  for (;;) {
    ASSIGN_OR_RETURN(const auto fields, read_line(deadline));
    if (fields.contains("debug")) return {};
  }
}

Status PmiSession::greet(Deadline deadline) {
  RETURN_IF_ERROR(ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", deadline).status());
  ASSIGN_OR_RETURN(auto maxes, ask("cmd=get_maxes", "maxes", deadline));
  const Result<int64_t> bytes = parse_integer(maxes["vallen_max"], 1, 1 << 30);
  if (!bytes.ok()) return {Code::kInternal, std::string(kPeer) + " did not say how long a value may be"};
  max_value_bytes_ = static_cast<size_t>(*bytes);
  ASSIGN_OR_RETURN(auto name, ask("cmd=get_my_kvsname", "my_kvsname", deadline));
  job_ = name["kvsname"];
  return {};
}

Status PmiSession::put(const std::string& key, const std::string& value, Deadline deadline) {
  return ask("cmd=put kvsname=" + job_ + " key=" + key + " value=" + value, "put_result", deadline).status();
}

Status PmiSession::barrier(Deadline deadline) { return ask("cmd=barrier_in", "barrier_out", deadline).status(); }

Result<std::string> PmiSession::get(const std::string& key, Deadline deadline) {
  ASSIGN_OR_RETURN(auto fields, ask("cmd=get kvsname=" + job_ + " key=" + key, "get_result", deadline));
  return fields["value"];
}

Status PmiSession::finalize(Deadline deadline) { return ask("cmd=finalize", "finalize_ack", deadline).status(); }

Result<std::map<std::string, std::string>> PmiSession::ask(const std::string& line, const std::string& answer,
                                                           Deadline deadline) {
  RETURN_IF_ERROR(send(line, deadline));
  ASSIGN_OR_RETURN(auto fields, read_line(deadline));
  const std::string what = line.substr(0, line.find(' '));
  if (fields["cmd"] != answer) {
    return Status(Code::kInternal, std::string(kPeer) + " answered \"" + fields["cmd"] + "\" to \"" + what + "\"");
  }
  if (fields.contains("rc") && fields["rc"] != "0") {
    return Status(Code::kInternal,
                  std::string(kPeer) + " refused \"" + what + "\": " + fields["msg"] + " (rc " + fields["rc"] + ")");
  }
  return fields;
}

Status PmiSession::send(const std::string& line, Deadline deadline) {
  const std::string whole = line + "\n";
  return write_all(socket_.get(), as_bytes(whole), std::string(kPeer), deadline);
}

Result<std::map<std::string, std::string>> PmiSession::read_line(Deadline deadline) {
  std::array<std::byte, 4096> buffer;
  for (;;) {
    const size_t end = inbox_.find('\n');
    if (end != std::string::npos) {
      const std::string line = inbox_.substr(0, end);
      inbox_.erase(0, end + 1);
      return parse_pmi_line(line);
    }
    if (inbox_.size() > kLongestLine) return Status(Code::kInternal, std::string(kPeer) + " sent a line that does not end");
    // The launcher's socket may be a blocking one, which this process must not change for others.
    if (wait_for(socket_.get(), POLLIN, deadline) == WaitOutcome::kDeadline) {
      return Status(Code::kTimeout, std::string(kPeer) + " did not answer before the deadline");
    }
    const Transfer transfer = read_some(socket_.get(), buffer);
    if (transfer.closed) return Status(Code::kRemote, std::string(kPeer) + " closed the connection");
    if (transfer.error_number != 0) return system_error(std::string(kPeer) + ": reading", transfer.error_number);
    inbox_ += to_text(std::span(buffer).first(transfer.bytes));
  }
}

}  // namespace gimbal
