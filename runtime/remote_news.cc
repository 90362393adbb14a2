#include "runtime/remote_news.h"

#include <string>
#include <utility>

#include "transport/bytes.h"

namespace gimbal {
namespace {

enum class Kind : uint8_t { kFault = 1, kDeparture = 2, kAnnouncement = 3 };

constexpr size_t kMaxFaultBytes = 4096;

ByteWriter begin(Kind kind) {
  ByteWriter writer;
  writer.u8(static_cast<uint8_t>(kind));
  return writer;
}

}  // namespace

RemoteNews::RemoteNews(Bootstrap& mesh, const NodeShape& nodes, Rank rank)
    : mesh_(mesh), peers_(static_cast<size_t>(nodes.nranks())) {
  for (Rank peer = 0; peer < nodes.nranks(); ++peer) {
    if (nodes.node_of(peer) != nodes.node_of(rank)) others_.push_back(peer);
  }
}

void RemoteNews::tell_fault(const Status& fault, Rank origin) {
  mesh_.post(others_, begin(Kind::kFault)
                          .u8(static_cast<uint8_t>(fault.code()))
                          .u32(static_cast<uint32_t>(origin))
                          .text(fault.message().substr(0, kMaxFaultBytes))
                          .take());
}

void RemoteNews::tell_departure() { mesh_.post(others_, begin(Kind::kDeparture).take()); }

void RemoteNews::announce(const Signature& signature) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(told_sequence_, signature.sequence) == signature.sequence) return;
  }
  mesh_.post(others_, begin(Kind::kAnnouncement)
                          .u32(signature.sequence)
                          .u64(signature.count)
                          .u32(signature.kind)
                          .u32(static_cast<uint32_t>(signature.root))
                          .take());
}

Status RemoteNews::update() {
  ASSIGN_OR_RETURN(const std::vector<Bootstrap::News> arrived, mesh_.take_news());
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Bootstrap::News& news : arrived) RETURN_IF_ERROR(hear(news.from, news.value));
  return {};
}

Status RemoteNews::hear(Rank from, const std::vector<std::byte>& value) {
  const Status malformed(Code::kInternal, "rank " + std::to_string(from) + " sent news that no rank sends");
  Peer& peer = peers_[static_cast<size_t>(from)];
  ByteReader reader(value);
  switch (static_cast<Kind>(reader.u8())) {
    case Kind::kFault: {
      const auto code = static_cast<Code>(reader.u8());
      const auto origin = static_cast<Rank>(reader.u32());
      std::string sentence = reader.text(kMaxFaultBytes);
      if (!reader.finished() || code > Code::kInternal || !loses_communicator(code)) return malformed;
      if (!fault_) fault_ = {Status(code, std::move(sentence)), origin};
      return {};
    }
    case Kind::kDeparture:
      if (!reader.finished()) return malformed;
      peer.departed = true;
      return {};
    case Kind::kAnnouncement: {
      Signature signature;
      signature.sequence = reader.u32();
      signature.count = reader.u64();
      signature.kind = reader.u32();
      signature.root = static_cast<int32_t>(reader.u32());
      if (!reader.finished()) return malformed;
      peer.announced = signature;
      return {};
    }
  }
  return malformed;
}

std::optional<RemoteNews::Fault> RemoteNews::fault() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return fault_;
}

bool RemoteNews::has_departed(Rank peer) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return peers_[static_cast<size_t>(peer)].departed;
}

std::optional<Signature> RemoteNews::announced(Rank peer) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return peers_[static_cast<size_t>(peer)].announced;
}

std::optional<RemoteNews::Difference> RemoteNews::find_difference(const Signature& mine) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Rank peer : others_) {
    const std::optional<Signature>& theirs = peers_[static_cast<size_t>(peer)].announced;
    if (theirs && theirs->sequence == mine.sequence && *theirs != mine) return Difference{peer, *theirs};
  }
  return std::nullopt;
}

}  // namespace gimbal
