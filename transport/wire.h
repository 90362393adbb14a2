// The bytes of first contact: what may stand on a store's or a control connection, as pure functions over spans.
//
// docs/transport.md has the grammar. Parsers accept any bytes: they return nothing for what is malformed or past a limit, and
// take no memory for lengths that they have not compared with the limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "transport/bytes.h"
#include "transport/job_key.h"
#include "transport/socket.h"
#include "transport/store.h"

namespace gimbal {

inline constexpr uint32_t kWireVersion = 1;

// ---- Every connection begins with: hello of the client, hello of the server, proof of the client, verdict of the server.

inline constexpr size_t kMagicBytes = 8;
std::span<const std::byte> hello_magic();

enum class Purpose : uint8_t { kStore = 1, kControl = 2, kData = 3 };

// What a connection is for, said by the side that connects.
struct Claim {
  Purpose purpose = Purpose::kStore;
  Rank from = 0;
  Rank to = 0;
  uint32_t stream = 0;

  bool operator==(const Claim&) const = default;
};

// Magic and version come first in both hellos and in every version of them.
inline constexpr size_t kVersionedBytes = kMagicBytes + 4;
struct ClientHello {
  uint32_t version = kWireVersion;
  Nonce job = {};
  Claim claim;
  Nonce nonce = {};
};
inline constexpr size_t kClientHelloBytes = kVersionedBytes + sizeof(Nonce) + 1 + 4 + 4 + 4 + sizeof(Nonce);
Bytes encode(const ClientHello& hello);
std::optional<ClientHello> parse_client_hello(std::span<const std::byte> bytes);

struct ServerHello {
  uint32_t version = kWireVersion;
  Nonce job = {};
  Nonce nonce = {};
};
inline constexpr size_t kServerHelloBytes = kVersionedBytes + sizeof(Nonce) + sizeof(Nonce);
Bytes encode(const ServerHello& hello);
std::optional<ServerHello> parse_server_hello(std::span<const std::byte> bytes);

// What each side ("client", "server") proves that it has the job's key over.
Bytes proof_context(std::string_view side, const ClientHello& client, const ServerHello& server);

enum class Acceptance : uint8_t { kOtherKey = 0, kAccepted = 1, kNotExpected = 2 };
struct Verdict {
  Acceptance acceptance = Acceptance::kOtherKey;
  Proof proof = {};  // the server's; zeros to a client with another key
};
inline constexpr size_t kVerdictBytes = 1 + sizeof(Proof);
Bytes encode(const Verdict& verdict);
std::optional<Verdict> parse_verdict(std::span<const std::byte> bytes);

// ---- Store: after the hellos, requests and answers.

enum class StoreOp : uint8_t { kSet = 1, kGet = 2, kGetNow = 3, kWait = 4, kAdd = 5 };
struct StoreRequest {  // followed by the key and the value
  uint32_t id = 0;
  StoreOp op = StoreOp::kSet;
  uint32_t key_bytes = 0;
  uint32_t value_bytes = 0;
  int64_t amount = 0;
};
inline constexpr size_t kStoreRequestBytes = 4 + 1 + 4 + 4 + 8;
Bytes encode(const StoreRequest& request);
std::optional<StoreRequest> parse_store_request(std::span<const std::byte> bytes);

enum class StoreAnswerKind : uint8_t { kDone = 0, kMissing = 1 };
struct StoreAnswer {  // followed by the value
  uint32_t id = 0;
  StoreAnswerKind kind = StoreAnswerKind::kDone;
  uint32_t value_bytes = 0;
  int64_t count = 0;
};
inline constexpr size_t kStoreAnswerBytes = 4 + 1 + 4 + 8;
Bytes encode(const StoreAnswer& answer);
std::optional<StoreAnswer> parse_store_answer(std::span<const std::byte> bytes);

// ---- Joining: what a rank puts into the store, and what rank 0 answers.

inline constexpr size_t kMaxHostBytes = 255;
inline constexpr size_t kMaxNodeBytes = 128;
inline constexpr size_t kMaxSentenceBytes = 8192;
inline constexpr Rank kMaxRanks = 100'000;

inline constexpr size_t kMaxInterfaceBytes = 15;
inline constexpr size_t kMaxCandidates = 64;

// An address at which a rank listens, with the interface that has it.
struct TcpCandidate {
  std::string interface;
  IpAddress ip = {};
};

struct JoinRecord {
  uint32_t version = 0;  // of the library
  Rank rank = 0;
  Rank size = 0;
  int64_t pid = 0;
  std::string host;
  std::string node;                      // equal where process ids and abstract sockets are common
  std::string control_address;           // an abstract Unix name
  uint16_t port = 0;                     // of the candidates
  std::vector<TcpCandidate> candidates;  // none where no interface is up
};
Bytes encode(const JoinRecord& record);
std::optional<JoinRecord> parse_join_record(std::span<const std::byte> bytes);

struct Roster {
  Nonce nonce = {};
  std::vector<JoinRecord> records;  // by rank
};
Bytes encode(const Roster& roster);
std::optional<Roster> parse_roster(std::span<const std::byte> bytes);

// The end of joining: a roster, or the fault that all ranks report.
struct JoinVerdict {
  std::optional<Roster> roster;
  Status fault;
  int64_t readers = 0;  // how many ranks are waiting for a fault
};
Bytes encode(const JoinVerdict& verdict);
std::optional<JoinVerdict> parse_join_verdict(std::span<const std::byte> bytes);

// ---- Control connections: after the hellos, frames.

enum class FrameKind : uint8_t { kMessage = 1, kGather = 2, kDescriptor = 3, kNews = 4, kSurvivor = 5, kFault = 6 };
struct FrameHeader {
  FrameKind kind = FrameKind::kMessage;
  uint32_t bytes = 0;
  uint64_t tag = 0;
};
inline constexpr size_t kMaxFrameBytes = size_t{1} << 20;
inline constexpr size_t kFrameHeaderBytes = 1 + 4 + 8;
Bytes encode(const FrameHeader& header);
std::optional<FrameHeader> parse_frame_header(std::span<const std::byte> bytes);

// Why a rank gives a mesh up: the payload of a kFault frame, its last one.
Bytes encode_fault(const Status& fault);
std::optional<Status> parse_fault(std::span<const std::byte> bytes);

// What a rank says about who is left (runtime/survivors.h): the payload of a kSurvivor frame.
enum class RankState : uint8_t { kPresent = 0, kSilent = 1, kGone = 2 };
struct SurvivorMessage {
  uint32_t round = 0;
  bool decided = false;  // the communicator of this round exists
  std::vector<RankState> states;

  friend bool operator==(const SurvivorMessage&, const SurvivorMessage&) = default;
};
Bytes encode(const SurvivorMessage& message);
std::optional<SurvivorMessage> parse_survivor_message(std::span<const std::byte> bytes);

}  // namespace gimbal
