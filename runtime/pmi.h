// PMI-1, the wire protocol of MPICH's Hydra: lines "cmd=put kvsname=... key=... value=..." over a socket that the launcher left
// open (PMI_FD) or listens on (PMI_PORT).
//
// Only what passes one word from rank 0 to the others is used. A process that has begun a session must finalize it before it
// ends, or the launcher takes its end for a crash and kills the job (tried with Hydra 5.0); and it cannot begin another one. So
// the session is the process's, and is finalized at its exit. An MPI library in the same process may speak on the socket
// meanwhile.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/status.h"

namespace gimbal {

// "cmd=get_result rc=0 value=a=b c" has cmd, rc, and value, which extends to the end of the line. Accepts any bytes.
std::map<std::string, std::string> parse_pmi_line(std::string_view line);

class PmiSession {
 public:
  // By PMI_FD, else by PMI_PORT and PMI_ID.
  static Result<std::shared_ptr<PmiSession>> of_this_process(Deadline deadline);
  // Over a socket of one's own, for tests.
  static Result<PmiSession> over(FileDescriptor socket, Deadline deadline);

  // The launcher's name for the job's space of keys.
  [[nodiscard]] const std::string& job() const { return job_; }
  [[nodiscard]] size_t max_value_bytes() const { return max_value_bytes_; }
  Status put(const std::string& key, const std::string& value, Deadline deadline);
  // All processes of the job; what was put before it can be got after it.
  Status barrier(Deadline deadline);
  Result<std::string> get(const std::string& key, Deadline deadline);
  Status finalize(Deadline deadline);

 private:
  static Result<PmiSession> open(Deadline deadline);
  explicit PmiSession(FileDescriptor socket) : socket_(std::move(socket)) {}
  Status connect_by_port(Deadline deadline);
  Status greet(Deadline deadline);
  Status send(const std::string& line, Deadline deadline);
  Result<std::map<std::string, std::string>> read_line(Deadline deadline);
  // Sends a line and reads the answer, which must be of this kind and, where it has an rc, say 0.
  Result<std::map<std::string, std::string>> ask(const std::string& line, const std::string& answer, Deadline deadline);

  FileDescriptor socket_;
  std::string inbox_;
  std::string job_;
  size_t max_value_bytes_ = 0;
};

}  // namespace gimbal
