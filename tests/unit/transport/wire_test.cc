// What is written is read back; what is cut, changed or too large is not read.
#include "transport/wire.h"

#include <gtest/gtest.h>

namespace gimbal {
namespace {

JoinRecord a_record(Rank rank) {
  return {.version = 0x000102,
          .rank = rank,
          .size = 2,
          .pid = 4711,
          .host = "host",
          .node = "node",
          .control_address = "name",
          .port = 4021,
          .candidates = {{.interface = "eth0", .ip = {std::byte{0xfe}}}, {.interface = "eth1", .ip = {}}}};
}

JoinVerdict a_roster() {
  JoinVerdict verdict;
  verdict.roster = Roster{.nonce = random_nonce(), .records = {a_record(0), a_record(1)}};
  return verdict;
}

JoinVerdict a_fault() {
  JoinVerdict verdict;
  verdict.fault = Status(Code::kMismatch, "a sentence");
  verdict.readers = 7;
  return verdict;
}

// No proper beginning of a message is a message, nor is one with a byte more.
template <typename Parse>
void expect_exact_length(Bytes bytes, const Parse& parse) {
  ASSERT_TRUE(parse(bytes).has_value());
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(parse(std::span<const std::byte>(bytes).first(length)).has_value()) << length << " bytes";
  }
  bytes.push_back({});
  EXPECT_FALSE(parse(bytes).has_value());
}

TEST(Wire, RefusesEveryMessageThatIsTooShortOrTooLong) {
  expect_exact_length(encode(ClientHello{}), parse_client_hello);
  expect_exact_length(encode(ServerHello{}), parse_server_hello);
  expect_exact_length(encode(Verdict{}), parse_verdict);
  expect_exact_length(encode(StoreRequest{.op = StoreOp::kAdd}), parse_store_request);
  expect_exact_length(encode(StoreAnswer{}), parse_store_answer);
  expect_exact_length(encode(a_record(1)), parse_join_record);
  expect_exact_length(encode(*a_roster().roster), parse_roster);
  expect_exact_length(encode(a_roster()), parse_join_verdict);
  expect_exact_length(encode(a_fault()), parse_join_verdict);
  expect_exact_length(encode(FrameHeader{}), parse_frame_header);
}

TEST(Wire, ReadsBackWhatItWrote) {
  const JoinVerdict roster = *parse_join_verdict(encode(a_roster()));
  ASSERT_TRUE(roster.roster.has_value());
  const JoinRecord& record = roster.roster->records[1];
  EXPECT_EQ(record.pid, 4711);
  EXPECT_EQ(record.host + record.node + record.control_address, "hostnodename");
  EXPECT_EQ(record.port, 4021);
  ASSERT_EQ(record.candidates.size(), 2u);
  EXPECT_EQ(record.candidates[0].interface + record.candidates[1].interface, "eth0eth1");
  EXPECT_EQ(record.candidates[0].ip[0], std::byte{0xfe});

  const JoinVerdict fault = *parse_join_verdict(encode(a_fault()));
  EXPECT_FALSE(fault.roster.has_value());
  EXPECT_EQ(fault.fault.message(), "a sentence");
  EXPECT_EQ(fault.readers, 7);

  const StoreRequest request =
      *parse_store_request(encode(StoreRequest{.id = 9, .op = StoreOp::kAdd, .key_bytes = 3, .amount = -5}));
  EXPECT_EQ(request.id, 9u);
  EXPECT_EQ(request.amount, -5);
}

TEST(Wire, RefusesLengthsPastTheirLimits) {
  EXPECT_FALSE(parse_store_request(encode(StoreRequest{.key_bytes = kMaxStoreKeyBytes + 1})).has_value());
  EXPECT_FALSE(parse_store_request(encode(StoreRequest{.value_bytes = kMaxStoreValueBytes + 1})).has_value());
  EXPECT_FALSE(parse_store_request(encode(StoreRequest{.op = StoreOp::kGet, .value_bytes = 1})).has_value());
  EXPECT_FALSE(parse_store_answer(encode(StoreAnswer{.value_bytes = kMaxStoreValueBytes + 1})).has_value());
  EXPECT_FALSE(parse_frame_header(encode(FrameHeader{.bytes = kMaxFrameBytes + 1})).has_value());
  EXPECT_FALSE(parse_frame_header(encode(FrameHeader{.kind = FrameKind::kDescriptor, .bytes = 1})).has_value());
}

TEST(Wire, RefusesARecordWithTooManyCandidates) {
  JoinRecord record = a_record(0);
  record.candidates.resize(kMaxCandidates + 1);
  EXPECT_FALSE(parse_join_record(encode(record)).has_value());
}

TEST(Wire, CarriesWhatIsSaidAfterAFailure) {
  const SurvivorMessage said = {.round = 3, .decided = true, .states = {RankState::kPresent, RankState::kGone}};
  EXPECT_EQ(parse_survivor_message(encode(said)), said);
  const std::optional<Status> fault = parse_fault(encode_fault(Status(Code::kRemote, "rank 2 is gone")));
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(fault->code(), Code::kRemote);
  EXPECT_EQ(fault->message(), "rank 2 is gone");
}

TEST(Wire, RefusesAStateOfARankThatIsNone) {
  Bytes bytes = encode(SurvivorMessage{.round = 1, .decided = false, .states = {RankState::kGone}});
  bytes.back() = std::byte{3};
  EXPECT_FALSE(parse_survivor_message(bytes).has_value());
  EXPECT_FALSE(parse_fault(encode_fault(Status())).has_value()) << "success is no fault";
}

TEST(Wire, RefusesARosterThatIsNotInRankOrder) {
  Roster roster = *a_roster().roster;
  std::swap(roster.records[0], roster.records[1]);
  EXPECT_FALSE(parse_roster(encode(roster)).has_value());
}

TEST(Wire, ReadsRankAndVersionOfARecordFromALaterWireVersion) {
  Bytes bytes = encode(a_record(1));
  bytes[0] = std::byte{99};
  bytes.resize(bytes.size() - 3);  // whatever follows the host is another format
  const std::optional<JoinRecord> record = parse_join_record(bytes);
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->rank, 1);
  EXPECT_EQ(record->version, 0x000102u);
  EXPECT_EQ(record->control_address, "");
}

}  // namespace
}  // namespace gimbal
