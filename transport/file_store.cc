#include "transport/file_store.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "transport/job_key.h"
#include "transport/store_table.h"
#include "transport/stores.h"

namespace gimbal {
namespace {

constexpr off_t kOwnerByte = 0;
constexpr off_t kReadyByte = 1;
constexpr std::chrono::milliseconds kFirstPause(1);
constexpr std::chrono::milliseconds kLongestPause(20);

struct flock lock_of(off_t byte, off_t length) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = length;
  return lock;
}

bool try_lock(int fd, off_t byte) {
  struct flock lock = lock_of(byte, 1);
  return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool is_locked_by_another(int fd, off_t byte) {
  struct flock lock = lock_of(byte, 1);
  return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

// Whether the open file is still the one under its name.
bool is_named(int fd, const std::string& path) {
  struct stat open_file = {};
  struct stat named = {};
  return fstat(fd, &open_file) == 0 && stat(path.c_str(), &named) == 0 && open_file.st_ino == named.st_ino &&
         open_file.st_dev == named.st_dev;
}

Status in_file(const std::string& path, int error_number) { return system_error("rendezvous file " + path, error_number); }

Status write_file(int fd, std::span<const std::byte> bytes, const std::string& path) {
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t count = write(fd, bytes.data() + written, bytes.size() - written);
    if (count < 0 && errno != EINTR) return in_file(path, errno);
    if (count > 0) written += static_cast<size_t>(count);
  }
  return {};
}

// At most limit bytes.
Result<Bytes> read_file(int fd, size_t limit, const std::string& path) {
  Bytes bytes;
  Bytes part(size_t{64} << 10);
  for (;;) {
    const ssize_t count = pread(fd, part.data(), part.size(), static_cast<off_t>(bytes.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return in_file(path, errno);
    if (count == 0) return bytes;
    bytes.insert(bytes.end(), part.begin(), part.begin() + count);
    if (bytes.size() > limit) return Status(Code::kInternal, "rendezvous file " + path + " is longer than any Gimbal writes");
  }
}

// What <folder>/session says: the random name, and a proof that its writer has the job's key.
std::string session_text(const std::string& name, const std::string& job_key) {
  return "gimbal session " + name + " " + to_hex(JobKey(job_key).prove(as_bytes(name))) + "\n";
}

bool is_session_name(const std::string& name) {
  return name.size() == 2 * sizeof(Nonce) && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

void pause_before(Deadline deadline, std::chrono::milliseconds& pause) {
  std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, std::chrono::nanoseconds(deadline.remaining_ns())));
  pause = std::min(pause * 2, kLongestPause);
}

// Only what Gimbal makes: the folder may hold other files.
void remove_sessions(const std::string& folder) {
  std::error_code ignored;  // what cannot be removed stays, and fools nobody without its lock
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (is_session_name(entry.path().filename())) std::filesystem::remove_all(entry.path(), ignored);
  }
}

}  // namespace

Result<std::unique_ptr<FileStore>> FileStore::open(const std::string& folder, Rank rank, const std::string& job_key,
                                                   Deadline deadline) {
  return rank == 0 ? begin_session(folder, job_key) : find_session(folder, job_key, deadline);
}

Result<std::unique_ptr<FileStore>> FileStore::begin_session(const std::string& folder, const std::string& job_key) {
  const std::string path = folder + "/session";
  FileDescriptor session;
  // A former owner may be removing the folder in this moment; then another round finds it gone or makes it anew.
  constexpr int kRounds = 100;
  for (int round = 0; !session.valid() && round < kRounds; ++round) {
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return in_file(folder, errno);
    FileDescriptor candidate(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!candidate.valid() && errno != ENOENT) return in_file(path, errno);
    if (!candidate.valid()) continue;
    if (!try_lock(candidate.get(), kOwnerByte)) {
      if (errno != EAGAIN && errno != EACCES) return in_file(path, errno);
      return Status(Code::kSystem, "file://" + folder + " is in use by another job");
    }
    if (is_named(candidate.get(), path)) session = std::move(candidate);
  }
  if (!session.valid()) return Status(Code::kSystem, "rendezvous file " + path + " is removed again and again");

  remove_sessions(folder);
  const std::string name = to_hex(random_nonce());
  const std::string session_folder = folder + "/" + name;
  if (mkdir(session_folder.c_str(), 0700) != 0) return in_file(session_folder, errno);
  if (ftruncate(session.get(), 0) != 0) return in_file(path, errno);
  RETURN_IF_ERROR(write_file(session.get(), as_bytes(session_text(name, job_key)), path));
  if (!try_lock(session.get(), kReadyByte)) return in_file(path, errno);
  return std::unique_ptr<FileStore>(new FileStore(folder, std::move(session), session_folder, true));
}

Result<std::unique_ptr<FileStore>> FileStore::find_session(const std::string& folder, const std::string& job_key,
                                                           Deadline deadline) {
  constexpr size_t kMaxSessionBytes = 1024;
  const std::string path = folder + "/session";
  const std::string before = "gimbal session ";
  for (std::chrono::milliseconds pause = kFirstPause;; pause_before(deadline, pause)) {
    FileDescriptor session(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!session.valid() && errno != ENOENT) return in_file(path, errno);
    if (session.valid()) {
      // Byte 1 is locked only while the text is a live session's; the text is read again in case it was a dead one's before.
      ASSIGN_OR_RETURN(const Bytes first, read_file(session.get(), kMaxSessionBytes, path));
      const bool live = is_locked_by_another(session.get(), kReadyByte);
      ASSIGN_OR_RETURN(const Bytes bytes, read_file(session.get(), kMaxSessionBytes, path));
      if (live && bytes == first) {
        const std::string text = to_text(bytes);
        const std::string name = text.starts_with(before) ? text.substr(before.size(), 2 * sizeof(Nonce)) : "";
        if (!is_session_name(name)) return Status(Code::kSystem, path + " is not a Gimbal rendezvous file");
        if (text != session_text(name, job_key)) {
          return Status(Code::kMismatch, "file://" + folder + " belongs to another job, or to one with another GIMBAL_JOB_KEY");
        }
        return std::unique_ptr<FileStore>(new FileStore(folder, std::move(session), folder + "/" + name, false));
      }
    }
    if (deadline.passed()) {
      return Status(Code::kTimeout, "file://" + folder + " was not opened by rank 0 before the deadline: is rank 0 running?");
    }
  }
}

FileStore::~FileStore() {
  if (!owner_) return;
  std::error_code ignored;
  std::filesystem::remove_all(session_folder_, ignored);
  std::filesystem::remove(folder_ + "/session", ignored);
  std::filesystem::remove(folder_, ignored);  // only when nothing else is in it
}

std::string FileStore::path_of(const std::string& key, const char* suffix) const {
  return session_folder_ + "/" + hex_digest(key) + suffix;  // keys may hold what file names may not
}

Status FileStore::failure(const std::string& what, int error_number) const {
  if (error_number != ENOENT) return in_file(what, error_number);
  return {Code::kRemote, "the store at file://" + folder_ + " is gone: rank 0 closed it or its process ended"};
}

Status FileStore::set(const std::string& key, std::span<const std::byte> value) {
  RETURN_IF_ERROR(check_store_value(key, value));
  const std::string path = path_of(key, "");
  const std::string beside = path_of(key, ".") + to_hex(random_nonce());
  {
    const FileDescriptor fd(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!fd.valid()) return failure(beside, errno);
    RETURN_IF_ERROR(write_file(fd.get(), value, beside));
  }
  if (rename(beside.c_str(), path.c_str()) != 0) return failure(path, errno);
  return {};
}

Result<Bytes> FileStore::get(const std::string& key, Deadline deadline) {
  RETURN_IF_ERROR(check_store_key(key));
  const std::string path = path_of(key, "");
  for (std::chrono::milliseconds pause = kFirstPause;; pause_before(deadline, pause)) {
    const bool gone = !owner_ && !is_locked_by_another(session_.get(), kReadyByte);
    const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.valid()) return read_file(fd.get(), kMaxStoreValueBytes, path);
    if (errno != ENOENT) return in_file(path, errno);
    if (gone) return failure(path, ENOENT);
    if (deadline.passed()) return store_timeout(key);
  }
}

Result<int64_t> FileStore::add(const std::string& key, int64_t amount) {
  RETURN_IF_ERROR(check_store_key(key));
  const std::string path = path_of(key, ".count");
  const FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return failure(path, errno);
  struct flock lock = lock_of(0, 0);
  while (fcntl(fd.get(), F_OFD_SETLKW, &lock) != 0) {
    if (errno != EINTR) return in_file(path, errno);
  }
  uint64_t count = 0;
  if (pread(fd.get(), &count, sizeof(count), 0) < 0) return in_file(path, errno);
  count += static_cast<uint64_t>(amount);
  if (pwrite(fd.get(), &count, sizeof(count), 0) != static_cast<ssize_t>(sizeof(count))) return in_file(path, errno);
  return static_cast<int64_t>(count);
}

Result<std::unique_ptr<Store>> open_file_store(const std::string& path, Rank rank, const std::string& job_key,
                                               Deadline deadline) {
  ASSIGN_OR_RETURN(std::unique_ptr<Store> store, FileStore::open(path, rank, job_key, deadline));
  return store;
}

}  // namespace gimbal
