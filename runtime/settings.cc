#include "runtime/settings.h"

#include <algorithm>
#include <cstring>

#include "base/environment.h"
#include "base/parse.h"
#include "runtime/launcher.h"
#include "runtime/rendezvous.h"
#include "transport/tcp_connect.h"
#include "transport/wire.h"

namespace gimbal {
namespace {

constexpr std::string_view kTransports[] = {"auto", "shm", "tcp", "verbs"};

Status invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

Status check_config(const gimbal_config_t& config) {
  if (config.struct_bytes != sizeof(gimbal_config_t) || config.abi_version != GIMBAL_CONFIG_ABI) {
    return invalid("the config was not set by this version's GIMBAL_CONFIG_INIT (struct_bytes " +
                   std::to_string(config.struct_bytes) + ", expected " + std::to_string(sizeof(gimbal_config_t)) + ")");
  }
  if (config.timeout_ms < 0) return invalid("config.timeout_ms is " + std::to_string(config.timeout_ms) + ", not positive");
  if (config.connect_timeout_ms < 0) {
    return invalid("config.connect_timeout_ms is " + std::to_string(config.connect_timeout_ms) + ", not positive");
  }
  if (config.deterministic < -1 || config.deterministic > 1) {
    return invalid("config.deterministic is " + std::to_string(config.deterministic) + ", not -1, 0 or 1");
  }
  if (config.progress != GIMBAL_PROGRESS_THREAD && config.progress != GIMBAL_PROGRESS_CALLER) {
    return invalid("config.progress is " + std::to_string(config.progress) + ", not a gimbal_progress_t");
  }
  if (config.store != nullptr) {
    const gimbal_store_t& store = *config.store;
    if (store.set == nullptr || store.get == nullptr || store.wait == nullptr || store.add == nullptr) {
      return invalid("config.store lacks a callback: set, get, wait and add are all needed");
    }
  }
  return {};
}

Status resolve_identity(const gimbal_config_t& config, Settings& settings) {
  if (config.rank < -1 || config.size < -1 || config.size == 0 || config.size > kMaxRanks) {
    return invalid("config.rank is " + std::to_string(config.rank) + " and config.size " + std::to_string(config.size) +
                   "; a size is 1 to " + std::to_string(kMaxRanks) + ", a rank 0 to size-1, and -1 means from the launcher");
  }
  if ((config.rank == -1) != (config.size == -1)) {
    return invalid("config.rank is " + std::to_string(config.rank) + " and config.size " + std::to_string(config.size) +
                   ": give both or neither");
  }
  LaunchedAs launched;
  if (config.rank == -1) {
    ASSIGN_OR_RETURN(launched, read_launcher());
    settings.rank = launched.rank;
    settings.size = launched.size;
    settings.launcher_conflict = launched.conflict;
  } else {
    settings.rank = config.rank;
    settings.size = config.size;
  }
  if (settings.rank >= settings.size) {
    return invalid("rank " + std::to_string(settings.rank) + " of " + std::to_string(settings.size) + " does not exist");
  }
  if (config.store != nullptr || settings.size == 1) return {};
  if (config.rendezvous != nullptr) {
    settings.rendezvous = config.rendezvous;
    return {};
  }
  ASSIGN_OR_RETURN(Rendezvous rendezvous, read_rendezvous(launched));
  settings.rendezvous = std::move(rendezvous.address);
  settings.launch = std::move(rendezvous.launch);
  return {};
}

Status resolve_algorithms(const gimbal_config_t& config, Settings& settings) {
  if (config.algorithm != nullptr) {
    Result<std::map<Collective, std::string>> forced = parse_algorithms(config.algorithm);
    if (!forced.ok()) return invalid("config.algorithm: " + forced.status().message());
    settings.algorithms = std::move(forced).value();
  } else if (const auto text = read_environment("GIMBAL_ALGORITHM")) {
    Result<std::map<Collective, std::string>> forced = parse_algorithms(*text);
    if (!forced.ok()) return invalid("GIMBAL_ALGORITHM: " + forced.status().message());
    settings.algorithms = std::move(forced).value();
  }
  return {};
}

Result<int64_t> read_deadline_ms(std::string_view name, int64_t default_ms) {
  ASSIGN_OR_RETURN(const int64_t milliseconds, environment_duration_ms(name, default_ms));
  if (milliseconds > 0) return milliseconds;
  return invalid(std::string(name) + ": \"" + read_environment(name).value_or("") + "\" is no time to wait; at least 1ms");
}

Status resolve_times(const gimbal_config_t& config, Settings& settings) {
  ASSIGN_OR_RETURN(settings.timeout_ms, read_deadline_ms("GIMBAL_TIMEOUT", settings.timeout_ms));
  ASSIGN_OR_RETURN(settings.connect_timeout_ms, read_deadline_ms("GIMBAL_CONNECT_TIMEOUT", settings.connect_timeout_ms));
  ASSIGN_OR_RETURN(settings.link_timeout_ms, read_deadline_ms("GIMBAL_LINK_TIMEOUT", settings.link_timeout_ms));
  ASSIGN_OR_RETURN(settings.shrink_wait_ms, read_deadline_ms("GIMBAL_SHRINK_WAIT", settings.shrink_wait_ms));
  ASSIGN_OR_RETURN(settings.warn_after_ms, environment_duration_ms("GIMBAL_WARN_AFTER", settings.warn_after_ms));
  if (config.timeout_ms > 0) settings.timeout_ms = config.timeout_ms;
  if (config.connect_timeout_ms > 0) settings.connect_timeout_ms = config.connect_timeout_ms;
  if (const auto text = read_environment("GIMBAL_SPIN")) {
    const Result<int64_t> spin = parse_duration_ns(*text);
    if (!spin.ok()) return invalid("GIMBAL_SPIN: " + spin.status().message());
    settings.spin_ns = *spin;
  }
  return {};
}

// "2": nodes of two ranks each; "3,1": of three and one in turn.
Status resolve_emulated_node(Settings& settings) {
  const std::optional<std::string> text = read_environment("GIMBAL_EMULATE_NODES");
  if (!text) return {};
  std::vector<Rank> sizes;
  for (size_t begin = 0; begin <= text->size();) {
    const size_t end = std::min(text->find(',', begin), text->size());
    const Result<int64_t> size = parse_integer(text->substr(begin, end - begin), 1, kMaxRanks);
    if (!size.ok()) return invalid("GIMBAL_EMULATE_NODES: " + size.status().message());
    sizes.push_back(static_cast<Rank>(*size));
    begin = end + 1;
  }
  Rank left = settings.rank;
  for (size_t node = 0; left >= sizes[node % sizes.size()]; ++node) {
    left -= sizes[node % sizes.size()];
    ++settings.emulated_node;
  }
  return {};
}

Result<SocketIo> resolve_tcp_io() {
  const std::string io = read_environment("GIMBAL_TCP_IO").value_or("auto");
  if (io == "auto") return SocketIo::kAuto;
  if (io == "uring") return SocketIo::kUring;
  if (io == "epoll") return SocketIo::kEpoll;
  return invalid("GIMBAL_TCP_IO: \"" + io + "\" is not one of auto, uring, epoll");
}

Status resolve_engine(const gimbal_config_t& config, Settings& settings) {
  ASSIGN_OR_RETURN(settings.deterministic, environment_bool("GIMBAL_DETERMINISTIC", false));
  if (config.deterministic != -1) settings.deterministic = config.deterministic == 1;
  if (const auto precision = read_environment("GIMBAL_PRECISION")) {
    if (*precision != "accumulator" && *precision != "element") {
      return invalid("GIMBAL_PRECISION: \"" + *precision + "\" is neither accumulator nor element");
    }
    settings.element_precision = *precision == "element";
  }
  RETURN_IF_ERROR(resolve_emulated_node(settings));
  ASSIGN_OR_RETURN(const int64_t streams, environment_integer("GIMBAL_TCP_STREAMS", 0, 1, kMaxTcpStreams));
  settings.tcp_streams = static_cast<uint32_t>(streams);
  ASSIGN_OR_RETURN(settings.tcp_io, resolve_tcp_io());
  ASSIGN_OR_RETURN(settings.verbs, read_verbs_settings());
  ASSIGN_OR_RETURN(settings.strict, environment_bool("GIMBAL_STRICT", false));
  settings.caller_progress = config.progress == GIMBAL_PROGRESS_CALLER;
  settings.transport = config.transport != nullptr ? config.transport : read_environment("GIMBAL_TRANSPORT").value_or("auto");
  if (std::ranges::find(kTransports, settings.transport) == std::end(kTransports)) {
    return invalid(std::string(config.transport != nullptr ? "config.transport" : "GIMBAL_TRANSPORT") + ": \"" +
                   settings.transport + "\" is not one of auto, shm, tcp, verbs");
  }
  settings.interfaces = read_environment("GIMBAL_SOCKET_IFNAME").value_or("");
  if (read_environment("GIMBAL_CHUNK_BYTES")) {
    ASSIGN_OR_RETURN(settings.chunk_bytes, environment_bytes("GIMBAL_CHUNK_BYTES", 0, size_t{4} << 10, size_t{64} << 20));
  }
  ASSIGN_OR_RETURN(settings.slot_bytes,
                   environment_bytes("GIMBAL_SLOT_BYTES", settings.slot_bytes, size_t{1} << 10, size_t{16} << 20));
  settings.slot_bytes = settings.slot_bytes / 64 * 64;
  settings.slot_bytes_forced = read_environment("GIMBAL_SLOT_BYTES").has_value();
  settings.job_key = read_environment("GIMBAL_JOB_KEY").value_or("");
  settings.topology_file = read_environment("GIMBAL_TOPO_FILE").value_or("");
  settings.tune_cache = read_environment("GIMBAL_TUNE_CACHE").value_or("");
  settings.flight_recorder = read_environment("GIMBAL_FLIGHT_RECORDER").value_or("");
  settings.metrics_file = read_environment("GIMBAL_METRICS_FILE").value_or("");
  ASSIGN_OR_RETURN(settings.metrics_period_ms, read_deadline_ms("GIMBAL_METRICS_PERIOD", settings.metrics_period_ms));
  ASSIGN_OR_RETURN(settings.straggler_factor,
                   environment_integer("GIMBAL_STRAGGLER_FACTOR", settings.straggler_factor, 0, 1'000'000));
  return {};
}

}  // namespace

Result<std::map<Collective, std::string>> parse_algorithms(const std::string& text) {
  std::map<Collective, std::string> forced;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(';', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t colon = item.find(':');
    const std::string name = colon == std::string::npos ? item : item.substr(colon + 1);
    if (name.empty()) return invalid("\"" + text + "\" is not name or collective:name;collective:name");
    if (colon == std::string::npos) {
      for (int i = 0; i < kCollectiveCount; ++i) forced.emplace(static_cast<Collective>(i), name);
      continue;
    }
    const std::optional<Collective> collective = parse_collective(item.substr(0, colon));
    if (!collective) return invalid("\"" + item.substr(0, colon) + "\" in \"" + text + "\" is not a collective");
    forced[*collective] = name;
  }
  return forced;
}

Result<Settings> resolve_settings(const gimbal_config_t* config) {
  const gimbal_config_t defaults = GIMBAL_CONFIG_INIT;
  if (config == nullptr) config = &defaults;
  RETURN_IF_ERROR(check_config(*config));
  Settings settings;
  RETURN_IF_ERROR(resolve_identity(*config, settings));
  RETURN_IF_ERROR(resolve_algorithms(*config, settings));
  RETURN_IF_ERROR(resolve_times(*config, settings));
  RETURN_IF_ERROR(resolve_engine(*config, settings));
  if (config->name != nullptr) settings.name = config->name;
  return settings;
}

Result<Log> make_log(const gimbal_config_t* config, const Settings& settings) {
  Log log;
  if (config != nullptr && config->log != nullptr) {
    log = Log([callback = config->log, context = config->log_context](LogLevel level, const std::string& line) {
      callback(context, static_cast<int>(level), line.c_str());
    });
  } else if (const auto text = read_environment("GIMBAL_LOG")) {
    Result<LogLevel> level = parse_log_level(*text);
    if (!level.ok()) return invalid("GIMBAL_LOG: " + level.status().message());
    log = Log(*level);
  }
  log.set_prefix("gimbal[" + settings.name + " rank " + std::to_string(settings.rank) + "/" + std::to_string(settings.size) +
                 "]");
  return log;
}

}  // namespace gimbal
