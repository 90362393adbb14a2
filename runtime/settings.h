// What gimbal_comm_create works with: the config struct, the launcher's variables, GIMBAL_* and the defaults, merged and
// checked.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/parking.h"
#include "base/status.h"
#include "base/types.h"
#include "gimbal/gimbal.h"
#include "transport/socket_poller.h"
#include "transport/verbs_settings.h"

namespace gimbal {

struct Settings {
  Rank rank = 0;
  Rank size = 1;
  std::string rendezvous;  // empty when the caller brings a store
  std::string launch;      // the launcher's name for this start of the job; empty: none
  std::string job_key;
  std::string name = "world";
  int64_t timeout_ms = 600'000;
  int64_t connect_timeout_ms = 120'000;
  int64_t warn_after_ms = 30'000;
  int64_t shrink_wait_ms = 10'000;
  bool deterministic = false;
  bool element_precision = false;
  bool caller_progress = false;
  std::map<Collective, std::string> algorithms;  // forced
  std::string transport = "auto";                // auto, shm, tcp, verbs
  std::string interfaces;                        // GIMBAL_SOCKET_IFNAME
  int64_t link_timeout_ms = 15'000;
  uint32_t tcp_streams = 0;  // per pair of ranks; 0: by the rate of their interfaces
  SocketIo tcp_io = SocketIo::kAuto;
  VerbsSettings verbs;
  bool strict = false;        // a fallback from a faster way is an error
  int32_t emulated_node = 0;  // of GIMBAL_EMULATE_NODES: ranks with different numbers share no memory
  std::optional<size_t> chunk_bytes;
  size_t slot_bytes = size_t{32} << 10;
  bool slot_bytes_forced = false;  // otherwise a communicator that spans nodes takes Links::kSlotBytesBetweenNodes
  std::optional<int64_t> spin_ns;
  std::string topology_file;    // empty: this machine
  std::string tune_cache;       // a path or "off"; empty: the usual place
  std::string flight_recorder;  // path with %r, %h, %p, %n; empty: none
  std::string metrics_file;     // the same
  int64_t metrics_period_ms = 10'000;
  int64_t straggler_factor = 3;   // 0: no report
  std::string launcher_conflict;  // a sentence for the log; empty: none
};

// config may be null. INVALID_ARGUMENT names the field or variable, its value and what is allowed.
Result<Settings> resolve_settings(const gimbal_config_t* config);

// "ring" for all collectives that have it, or "all_reduce:ring;all_gather:direct".
Result<std::map<Collective, std::string>> parse_algorithms(const std::string& text);

// The log that the config asks for.
Result<Log> make_log(const gimbal_config_t* config, const Settings& settings);

}  // namespace gimbal
