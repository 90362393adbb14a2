#include "collectives/way.h"

namespace gimbal {

std::string_view protocol_name(Protocol protocol) {
  switch (protocol) {
    case Protocol::kSlots:
      return "slots";
    case Protocol::kFlag:
      return "flag";
    case Protocol::kOneShot:
      return "one_shot";
    case Protocol::kTwoShots:
      return "two_shots";
  }
  return "";
}

std::string describe(const Way& way) {
  const std::string name(way.algorithm);
  switch (way.protocol) {
    case Protocol::kSlots:
      return name;
    case Protocol::kFlag:
      return name + ", one flag";
    case Protocol::kOneShot:
      return name + ", one shot";
    case Protocol::kTwoShots:
      return name + ", two shots";
  }
  return name;
}

bool direct_serves(Collective collective, Protocol protocol, size_t bytes) {
  switch (collective) {
    case Collective::kAllReduce:
      if (protocol == Protocol::kTwoShots) return true;
      [[fallthrough]];
    case Collective::kReduce:
    case Collective::kAllGather:
    case Collective::kGather:
    case Collective::kBroadcast:
      return protocol == Protocol::kOneShot || (protocol == Protocol::kFlag && bytes <= kFlagBytes);
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
    case Collective::kScatter:
      return protocol == Protocol::kOneShot;
    case Collective::kBarrier:
      return protocol == Protocol::kFlag;
    case Collective::kSend:
    case Collective::kRecv:
    case Collective::kAllGatherV:
    case Collective::kAllToAllV:
      return false;
  }
  return false;
}

}  // namespace gimbal
