// The GIDs and LIDs of ports.
//
// Ethernet: as RoCE adapters have them, a link-local and an IPv4 address, each for RoCE v1 and v2: places 0 to 3 of the table.
// InfiniBand: one GID, from the port's GUID, and a LID.
#pragma once

#include <infiniband/verbs.h>

#include <optional>

#include "tests/support/hostile_verbs/fabric.h"

namespace gimbal::hostile {

struct GidEntry {
  ibv_gid gid;
  ibv_gid_type type;
};

// Nothing where the table is empty.
std::optional<GidEntry> gid_of(const PortAddress& port, size_t index, bool infiniband);
uint16_t lid_of(const PortAddress& port);
uint64_t guid_of(const PortAddress& port);

// The port an address vector leads to; nowhere for an address that no port has.
PortAddress destination_of(const ibv_ah_attr& vector, bool infiniband);

}  // namespace gimbal::hostile
