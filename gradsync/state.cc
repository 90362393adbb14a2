#include "gradsync/state.h"

#include <cstring>
#include <map>

namespace gimbal::gradsync {
namespace {

constexpr uint64_t kMagic = 0x31415453474d4247;  // "GBMGSTA1"

struct Header {
  uint64_t magic;
  StateOwner owner;
  uint64_t sections;
};

struct SectionHeader {
  uint32_t kind;
  uint32_t name_bytes;
  uint64_t bytes;
};

class Writer {
 public:
  explicit Writer(std::span<std::byte> out) : out_(out) {}
  void put(const void* data, size_t bytes) {
    if (bytes != 0) std::memcpy(out_.data(), data, bytes);
    out_ = out_.subspan(bytes);
  }

 private:
  std::span<std::byte> out_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  // Empty and failed() when there are not so many.
  std::span<const std::byte> take(size_t bytes) {
    if (bytes > in_.size()) {
      failed_ = true;
      return {};
    }
    const auto taken = in_.first(bytes);
    in_ = in_.subspan(bytes);
    return taken;
  }
  template <typename T>
  T take_value() {
    T value = {};
    const auto bytes = take(sizeof value);
    if (!failed_) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] bool at_end() const { return in_.empty(); }

 private:
  std::span<const std::byte> in_;
  bool failed_ = false;
};

Status wrong(const std::string& what) { return {Code::kInvalidArgument, "the state " + what}; }

using Found = std::map<std::pair<std::string, uint32_t>, std::span<const std::byte>>;

Result<Found> find_sections(Reader& reader, uint64_t sections) {
  Found found;
  for (uint64_t i = 0; i < sections; ++i) {
    const auto header = reader.take_value<SectionHeader>();
    const auto name = reader.take(header.name_bytes);
    const auto bytes = reader.take(header.bytes);
    if (reader.failed()) return wrong("ends in the middle of section " + std::to_string(i));
    found[{std::string(reinterpret_cast<const char*>(name.data()), name.size()), header.kind}] = bytes;
  }
  if (!reader.at_end()) return wrong("goes on after its last section");
  return found;
}

std::string text_of(const StateOwner& owner) {
  return "rank " + std::to_string(owner.rank) + " of " + std::to_string(owner.size);
}

}  // namespace

size_t state_bytes(std::span<const StateSection> sections) {
  size_t bytes = sizeof(Header);
  for (const StateSection& section : sections) bytes += sizeof(SectionHeader) + section.parameter.size() + section.bytes.size();
  return bytes;
}

void save_state(std::span<const StateSection> sections, const StateOwner& owner, std::span<std::byte> out) {
  Writer writer(out);
  const Header header = {kMagic, owner, sections.size()};
  writer.put(&header, sizeof header);
  for (const StateSection& section : sections) {
    const SectionHeader each = {static_cast<uint32_t>(section.kind), static_cast<uint32_t>(section.parameter.size()),
                                section.bytes.size()};
    writer.put(&each, sizeof each);
    writer.put(section.parameter.data(), section.parameter.size());
    writer.put(section.bytes.data(), section.bytes.size());
  }
}

Status load_state(std::span<const std::byte> in, const StateOwner& owner, std::span<const StateSection> sections) {
  Reader reader(in);
  const auto header = reader.take_value<Header>();
  if (reader.failed() || header.magic != kMagic) return wrong("is not what gimbal_gradsync_state_save wrote");
  if (header.owner.rank != owner.rank || header.owner.size != owner.size) {
    return wrong("is of " + text_of(header.owner) + ", but this is " + text_of(owner));
  }
  ASSIGN_OR_RETURN(const Found found, find_sections(reader, header.sections));
  for (const StateSection& section : sections) {
    const auto it = found.find({section.parameter, static_cast<uint32_t>(section.kind)});
    const std::string named = "parameter \"" + section.parameter + "\"";
    if (it == found.end()) return wrong("has nothing for " + named);
    if (it->second.size() != section.bytes.size()) {
      return wrong("has " + std::to_string(it->second.size()) + " bytes for " + named + ", which needs " +
                   std::to_string(section.bytes.size()));
    }
  }
  if (found.size() != sections.size()) return wrong("has parameters that are not here");
  for (const StateSection& section : sections) {
    const auto bytes = found.at({section.parameter, static_cast<uint32_t>(section.kind)});
    if (!bytes.empty()) std::memcpy(section.bytes.data(), bytes.data(), bytes.size());
  }
  return {};
}

}  // namespace gimbal::gradsync
