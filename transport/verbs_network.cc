#include "transport/verbs_network.h"

namespace gimbal {
namespace {

constexpr size_t kMaxSentenceBytes = 4096;

}  // namespace

std::string describe(const PeerIdentity& peer) {
  return "rank " + std::to_string(peer.rank) + " (pid " + std::to_string(peer.pid) + " on host " + peer.host + ")";
}

Result<std::vector<Bytes>> exchange_offers(Bootstrap& mesh, const Result<Bytes>& mine, Deadline deadline) {
  ByteWriter writer;
  if (mine.ok()) {
    writer.u8(1).raw(*mine);
  } else {
    writer.u8(0).u8(static_cast<uint8_t>(mine.status().code())).text(mine.status().message().substr(0, kMaxSentenceBytes));
  }
  ASSIGN_OR_RETURN(std::vector<Bytes> all, mesh.all_gather(writer.take(), deadline));
  std::string with;
  Status without;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const std::string name = describe(mesh.peers()[rank]);
    ByteReader reader(all[rank]);
    if (reader.u8() == 1) {
      if (with.empty()) with = name;
      all[rank].erase(all[rank].begin());
      continue;
    }
    const auto code = static_cast<Code>(reader.u8());
    const std::string why = reader.text(kMaxSentenceBytes);
    // One that has a device and cannot use it says more than one that has none.
    const bool says_more = without.code() == Code::kUnsupported && code != Code::kUnsupported;
    if (without.ok() || says_more) without = Status(code == Code::kOk ? Code::kInternal : code, name + ": " + why);
  }
  if (without.ok()) return all;
  if (with.empty()) return without;
  return Status(Code::kMismatch, without.message() + ", while " + with + " has a port");
}

Status agree(Bootstrap& mesh, const Status& mine, Deadline deadline) {
  const Bytes value =
      ByteWriter().u8(static_cast<uint8_t>(mine.code())).text(mine.message().substr(0, kMaxSentenceBytes)).take();
  ASSIGN_OR_RETURN(const std::vector<Bytes> all, mesh.all_gather(value, deadline));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    ByteReader reader(all[rank]);
    const auto code = static_cast<Code>(reader.u8());
    const std::string sentence = reader.text(kMaxSentenceBytes);
    if (code != Code::kOk) return {code, describe(mesh.peers()[rank]) + ": " + sentence};
  }
  return {};
}

}  // namespace gimbal
