#include "transport/wire.h"

#include <algorithm>

#include "transport/socket.h"

namespace gimbal {
namespace {

constexpr std::string_view kHelloMagic = "GIMBALHI";
static_assert(kHelloMagic.size() == kMagicBytes);

bool begins_with(ByteReader& reader, std::string_view magic) {
  const auto found = reader.array<kMagicBytes>();
  return std::ranges::equal(found, as_bytes(magic));
}

void write_record(ByteWriter& writer, const JoinRecord& record) {
  writer.u32(kWireVersion).u32(record.version).u32(static_cast<uint32_t>(record.rank)).u32(static_cast<uint32_t>(record.size));
  writer.i64(record.pid).text(record.host).text(record.node).text(record.control_address);
  writer.u16(record.port).u8(static_cast<uint8_t>(record.candidates.size()));
  for (const TcpCandidate& candidate : record.candidates) writer.text(candidate.interface).raw(candidate.ip);
}

void read_candidates(ByteReader& reader, JoinRecord& record) {
  record.port = reader.u16();
  const size_t count = reader.count(kMaxCandidates);
  for (size_t i = 0; i < count && reader.ok(); ++i) {
    TcpCandidate candidate;
    candidate.interface = reader.text(kMaxInterfaceBytes);
    candidate.ip = reader.array<sizeof(IpAddress)>();
    record.candidates.push_back(std::move(candidate));
  }
}

// A record of another wire version has the same first fields; the rest is not looked at.
JoinRecord read_record(ByteReader& reader, bool& same_wire) {
  JoinRecord record;
  same_wire = reader.u32() == kWireVersion;
  record.version = reader.u32();
  record.rank = static_cast<Rank>(reader.u32());
  record.size = static_cast<Rank>(reader.u32());
  record.pid = reader.i64();
  record.host = reader.text(kMaxHostBytes);
  if (!same_wire) return record;
  record.node = reader.text(kMaxNodeBytes);
  record.control_address = reader.text(kMaxAbstractNameBytes);
  read_candidates(reader, record);
  return record;
}

void write_roster(ByteWriter& writer, const Roster& roster) {
  writer.raw(roster.nonce).u32(static_cast<uint32_t>(roster.records.size()));
  for (const JoinRecord& record : roster.records) write_record(writer, record);
}

std::optional<Roster> read_roster(ByteReader& reader) {
  Roster roster;
  roster.nonce = reader.array<sizeof(Nonce)>();
  const uint32_t count = reader.u32();
  if (!reader.ok() || count == 0 || count > static_cast<uint32_t>(kMaxRanks)) return std::nullopt;
  for (uint32_t i = 0; i < count; ++i) {
    bool same_wire = false;
    roster.records.push_back(read_record(reader, same_wire));
    if (!reader.ok() || !same_wire || roster.records.back().rank != static_cast<Rank>(i)) return std::nullopt;
  }
  return roster;
}

}  // namespace

std::span<const std::byte> hello_magic() { return as_bytes(kHelloMagic); }

Bytes encode(const ClientHello& hello) {
  return ByteWriter()
      .raw(hello_magic())
      .u32(hello.version)
      .raw(hello.job)
      .u8(static_cast<uint8_t>(hello.claim.purpose))
      .u32(static_cast<uint32_t>(hello.claim.from))
      .u32(static_cast<uint32_t>(hello.claim.to))
      .u32(hello.claim.stream)
      .raw(hello.nonce)
      .take();
}

std::optional<ClientHello> parse_client_hello(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  if (!begins_with(reader, kHelloMagic)) return std::nullopt;
  ClientHello hello;
  hello.version = reader.u32();
  hello.job = reader.array<sizeof(Nonce)>();
  const uint8_t purpose = reader.u8();
  hello.claim.from = static_cast<Rank>(reader.u32());
  hello.claim.to = static_cast<Rank>(reader.u32());
  hello.claim.stream = reader.u32();
  hello.nonce = reader.array<sizeof(Nonce)>();
  if (!reader.finished() || purpose < static_cast<uint8_t>(Purpose::kStore) || purpose > static_cast<uint8_t>(Purpose::kData)) {
    return std::nullopt;
  }
  hello.claim.purpose = static_cast<Purpose>(purpose);
  return hello;
}

Bytes encode(const ServerHello& hello) {
  return ByteWriter().raw(hello_magic()).u32(hello.version).raw(hello.job).raw(hello.nonce).take();
}

std::optional<ServerHello> parse_server_hello(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  if (!begins_with(reader, kHelloMagic)) return std::nullopt;
  ServerHello hello;
  hello.version = reader.u32();
  hello.job = reader.array<sizeof(Nonce)>();
  hello.nonce = reader.array<sizeof(Nonce)>();
  return reader.finished() ? std::optional(hello) : std::nullopt;
}

Bytes proof_context(std::string_view side, const ClientHello& client, const ServerHello& server) {
  return ByteWriter().text(side).raw(encode(client)).raw(encode(server)).take();
}

Bytes encode(const Verdict& verdict) {
  return ByteWriter().u8(static_cast<uint8_t>(verdict.acceptance)).raw(verdict.proof).take();
}

std::optional<Verdict> parse_verdict(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const uint8_t acceptance = reader.u8();
  const auto proof = reader.array<sizeof(Proof)>();
  if (!reader.finished() || acceptance > static_cast<uint8_t>(Acceptance::kNotExpected)) return std::nullopt;
  return Verdict{.acceptance = static_cast<Acceptance>(acceptance), .proof = proof};
}

Bytes encode(const StoreRequest& request) {
  return ByteWriter()
      .u32(request.id)
      .u8(static_cast<uint8_t>(request.op))
      .u32(request.key_bytes)
      .u32(request.value_bytes)
      .i64(request.amount)
      .take();
}

std::optional<StoreRequest> parse_store_request(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  StoreRequest request;
  request.id = reader.u32();
  const uint8_t op = reader.u8();
  request.key_bytes = reader.u32();
  request.value_bytes = reader.u32();
  request.amount = reader.i64();
  if (!reader.finished() || op < static_cast<uint8_t>(StoreOp::kSet) || op > static_cast<uint8_t>(StoreOp::kAdd))
    return std::nullopt;
  request.op = static_cast<StoreOp>(op);
  if (request.key_bytes > kMaxStoreKeyBytes || request.value_bytes > kMaxStoreValueBytes) return std::nullopt;
  if (request.op != StoreOp::kSet && request.value_bytes != 0) return std::nullopt;
  return request;
}

Bytes encode(const StoreAnswer& answer) {
  return ByteWriter().u32(answer.id).u8(static_cast<uint8_t>(answer.kind)).u32(answer.value_bytes).i64(answer.count).take();
}

std::optional<StoreAnswer> parse_store_answer(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  StoreAnswer answer;
  answer.id = reader.u32();
  const uint8_t kind = reader.u8();
  answer.value_bytes = reader.u32();
  answer.count = reader.i64();
  if (!reader.finished() || kind > 1 || answer.value_bytes > kMaxStoreValueBytes) return std::nullopt;
  answer.kind = static_cast<StoreAnswerKind>(kind);
  return answer;
}

Bytes encode(const JoinRecord& record) {
  ByteWriter writer;
  write_record(writer, record);
  return writer.take();
}

std::optional<JoinRecord> parse_join_record(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  bool same_wire = false;
  JoinRecord record = read_record(reader, same_wire);
  return (same_wire ? reader.finished() : reader.ok()) ? std::optional(std::move(record)) : std::nullopt;
}

Bytes encode(const Roster& roster) {
  ByteWriter writer;
  write_roster(writer, roster);
  return writer.take();
}

std::optional<Roster> parse_roster(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  std::optional<Roster> roster = read_roster(reader);
  return reader.finished() ? std::move(roster) : std::nullopt;
}

Bytes encode(const JoinVerdict& verdict) {
  ByteWriter writer;
  writer.u32(kWireVersion).u8(verdict.roster.has_value() ? 1 : 0);
  if (verdict.roster) {
    write_roster(writer, *verdict.roster);
  } else {
    writer.u8(static_cast<uint8_t>(verdict.fault.code())).i64(verdict.readers).text(verdict.fault.message());
  }
  return writer.take();
}

std::optional<JoinVerdict> parse_join_verdict(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const uint32_t version = reader.u32();
  const uint8_t kind = reader.u8();
  if (!reader.ok() || version != kWireVersion || kind > 1) return std::nullopt;
  JoinVerdict verdict;
  if (kind == 1) {
    verdict.roster = read_roster(reader);
    if (!verdict.roster) return std::nullopt;
  } else {
    const uint8_t code = reader.u8();
    verdict.readers = reader.i64();
    std::string sentence = reader.text(kMaxSentenceBytes);
    if (code == 0 || code > static_cast<uint8_t>(Code::kInternal)) return std::nullopt;
    verdict.fault = Status(static_cast<Code>(code), std::move(sentence));
  }
  return reader.finished() ? std::optional(std::move(verdict)) : std::nullopt;
}

Bytes encode(const FrameHeader& header) {
  return ByteWriter().u8(static_cast<uint8_t>(header.kind)).u32(header.bytes).u64(header.tag).take();
}

std::optional<FrameHeader> parse_frame_header(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const uint8_t kind = reader.u8();
  FrameHeader header;
  header.bytes = reader.u32();
  header.tag = reader.u64();
  if (!reader.finished() || kind < static_cast<uint8_t>(FrameKind::kMessage) ||
      kind > static_cast<uint8_t>(FrameKind::kFault)) {
    return std::nullopt;
  }
  header.kind = static_cast<FrameKind>(kind);
  if (header.bytes > kMaxFrameBytes || (header.kind == FrameKind::kDescriptor && header.bytes != 0)) return std::nullopt;
  return header;
}

Bytes encode_fault(const Status& fault) {
  const std::string_view sentence = std::string_view(fault.message()).substr(0, kMaxSentenceBytes);
  return ByteWriter().u8(static_cast<uint8_t>(fault.code())).text(sentence).take();
}

std::optional<Status> parse_fault(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const uint8_t code = reader.u8();
  std::string sentence = reader.text(kMaxSentenceBytes);
  if (!reader.finished() || code == 0 || code > static_cast<uint8_t>(Code::kInternal)) return std::nullopt;
  return Status(static_cast<Code>(code), std::move(sentence));
}

Bytes encode(const SurvivorMessage& message) {
  return ByteWriter()
      .u32(message.round)
      .u8(message.decided ? 1 : 0)
      .u32(static_cast<uint32_t>(message.states.size()))
      .raw(std::as_bytes(std::span(message.states)))
      .take();
}

std::optional<SurvivorMessage> parse_survivor_message(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  SurvivorMessage message;
  message.round = reader.u32();
  const uint8_t decided = reader.u8();
  const std::string states = reader.text(static_cast<size_t>(kMaxRanks));
  if (!reader.finished() || decided > 1) return std::nullopt;
  message.decided = decided == 1;
  for (const char state : states) {
    if (static_cast<uint8_t>(state) > static_cast<uint8_t>(RankState::kGone)) return std::nullopt;
    message.states.push_back(static_cast<RankState>(state));
  }
  return message;
}

}  // namespace gimbal
