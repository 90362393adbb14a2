// A store in a folder that all ranks see: one file per value (written beside and renamed), one per counter.
//
// <folder>/session names the session of the job that owns the folder now: a random folder beside it. Rank 0 holds a lock on
// byte 0 while its Store lives, and on byte 1 once the session is written; the kernel drops both when the process ends. So a
// session that a crashed job left behind is known by its missing lock: ranks do not join it, and the next rank 0 removes it.
// Rank 0 also removes everything when its Store ends; only a crash leaves files, until the next start.
//
// Locks are those of open file descriptions (F_OFD_SETLK), which network file systems pass to their server; a child that rank 0
// forks keeps them too, until it ends.
#pragma once

#include <memory>
#include <string>

#include "base/file_descriptor.h"
#include "transport/bytes.h"
#include "transport/store.h"

namespace gimbal {

class FileStore : public Store {
 public:
  // Rank 0: creates the folder, clears what a crashed job left, begins a session. Others: wait for a live session.
  static Result<std::unique_ptr<FileStore>> open(const std::string& folder, Rank rank, const std::string& job_key,
                                                 Deadline deadline);
  ~FileStore() override;

  Status set(const std::string& key, std::span<const std::byte> value) override;
  Result<Bytes> get(const std::string& key, Deadline deadline) override;
  Status wait(const std::string& key, Deadline deadline) override { return get(key, deadline).status(); }
  Result<int64_t> add(const std::string& key, int64_t amount) override;

 private:
  FileStore(std::string folder, FileDescriptor session, std::string session_folder, bool owner)
      : folder_(std::move(folder)), session_(std::move(session)), session_folder_(std::move(session_folder)), owner_(owner) {}
  static Result<std::unique_ptr<FileStore>> begin_session(const std::string& folder, const std::string& job_key);
  static Result<std::unique_ptr<FileStore>> find_session(const std::string& folder, const std::string& job_key,
                                                         Deadline deadline);
  [[nodiscard]] std::string path_of(const std::string& key, const char* suffix) const;
  Status failure(const std::string& what, int error_number) const;

  const std::string folder_;
  FileDescriptor session_;  // open file of <folder>/session: holds rank 0's locks
  const std::string session_folder_;
  const bool owner_;
};

}  // namespace gimbal
