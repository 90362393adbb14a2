// What the adapters of all processes share: who is where, which port has a link, and the packets on their way.
//
// It is one shared mapping of the file that HOSTILE_VERBS_FABRIC names (a memfd of the test's by its /proc path: nothing is
// left behind), or, without the variable, memory of this process alone. A process maps it once, with its first open device, and
// unmaps it with the last, so that ThreadSanitizer sees both ends of every packet.
//
// Every record has one writer, the adapter that owns it, and a queue pair's packets lie in the sender's record. No lock is
// shared between processes, so one that dies holds nobody up. Records are never reused within a fabric: whoever still reads
// that of a queue pair that is gone finds it gone.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/file_descriptor.h"

namespace gimbal::hostile {

inline constexpr size_t kMostHosts = 16;
inline constexpr size_t kMostDevices = 2;
inline constexpr size_t kPortsPerDevice = 2;
inline constexpr size_t kMostAdapters = 4096;     // devices opened in the life of a fabric
inline constexpr size_t kMostQueuePairs = 16384;  // made in the life of a fabric
inline constexpr size_t kMostProcesses = 4096;
inline constexpr size_t kCells = 32;  // packets on their way from one queue pair
inline constexpr size_t kCellBytes = 4096;
inline constexpr uint32_t kFirstQpNumber = 0x100;  // 0 and 1 are special in every subnet; no index is mistaken for a number

// Where a cable ends. Hosts are numbered from 1 in the order of their coming: zeros are nowhere.
struct PortAddress {
  uint8_t host = 0;
  uint8_t device = 0;
  uint8_t port = 0;  // from 1

  bool operator==(const PortAddress&) const = default;
};

enum class PacketKind : uint8_t { kWrite, kWriteWithImmediate, kSend, kSendWithImmediate };

struct PacketHeader {
  uint64_t remote_address;  // of this packet's first byte; writes only
  uint32_t rkey;
  uint32_t bytes;
  uint32_t message_bytes;
  uint32_t immediate;
  PacketKind kind;
  bool first;
  bool last;
  bool solicited;
};

struct Cell {
  PacketHeader header;
  std::array<std::byte, kCellBytes> payload;
};

// Why a responder refuses a message.
enum class Verdict : uint8_t { kNone, kRemoteAccess, kInvalidRequest, kOperation };

// What a responder has answered: how many messages are done, and what it thinks of the next one. One word, so that it is read
// whole.
struct Answer {
  uint64_t done = 0;
  Verdict verdict = Verdict::kNone;

  [[nodiscard]] uint64_t word() const { return done << 8 | static_cast<uint64_t>(verdict); }
  static Answer of(uint64_t word) { return {word >> 8, static_cast<Verdict>(word & 0xff)}; }
};

enum class Phase : uint32_t { kUnused, kReady, kGone };  // ready: what follows is valid and packets are taken

struct QueuePairRecord {
  std::atomic<Phase> phase;
  uint32_t adapter;
  uint32_t process;
  uint32_t destination_qp;
  PortAddress port;
  PortAddress destination;
  uint32_t gid_type;
  uint32_t receive_psn;
  uint32_t path_mtu_bytes;

  std::atomic<uint64_t> produced;   // packets that the owner has put into its ring
  std::atomic<uint64_t> consumed;   // packets of its peer's ring that the owner has taken
  std::atomic<uint64_t> answer;     // Answer to the peer
  std::atomic<uint64_t> not_ready;  // times the peer was told that no receive is posted
  std::array<Cell, kCells> ring;
};

struct AdapterRecord {
  alignas(64) std::atomic<uint32_t> doorbell;  // a futex: counts reasons to look
};

struct FabricMemory;

class Fabric {
 public:
  // This process's, made if need be; null, with errno, when it cannot be had.
  static std::shared_ptr<Fabric> join();
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  [[nodiscard]] uint8_t host() const { return host_; }
  [[nodiscard]] uint32_t process() const { return process_; }
  // False once the process is gone, be it reaped or not.
  [[nodiscard]] bool is_alive(uint32_t process) const;

  // False when this fabric has had as many as it can.
  bool add_adapter(uint32_t& adapter);
  bool add_queue_pair(uint32_t& qp_number);

  void ring(uint32_t adapter);
  void ring_all();
  [[nodiscard]] uint32_t doorbell(uint32_t adapter) const;
  // Returns when the doorbell has rung since it read `seen`, and after `timeout_ns` at the latest.
  void sleep(uint32_t adapter, uint32_t seen, int64_t timeout_ns);

  // The second port of every second device has nothing plugged in.
  [[nodiscard]] bool has_link(const PortAddress& port) const;
  void cut_link(const PortAddress& port);

  // Null when no queue pair has had that number.
  [[nodiscard]] QueuePairRecord* queue_pair(uint32_t qp_number) const;

 private:
  Fabric() = default;
  bool map();
  bool register_process();
  bool register_host();

  FileDescriptor file_;
  FabricMemory* memory_ = nullptr;
  uint8_t host_ = 0;
  uint32_t process_ = 0;
};

}  // namespace gimbal::hostile
