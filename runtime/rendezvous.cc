#include "runtime/rendezvous.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>

#include "base/environment.h"
#include "base/parse.h"
#include "base/process_registry.h"
#include "runtime/host_list.h"
#include "runtime/pmi.h"
#include "runtime/pmix.h"
#include "transport/job_key.h"

namespace gimbal {
namespace {

constexpr std::string_view kPmi = "pmi:";
constexpr std::string_view kPmix = "pmix:";

std::string text_of(std::string_view variable, const std::string& otherwise) {
  return read_environment(variable).value_or(otherwise);
}

Result<std::string> tcp_address(const std::string& host, int64_t port) {
  const bool bare_ipv6 = host.find(':') != std::string::npos && host.front() != '[';
  return "tcp://" + (bare_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

// Some ports that depend on the launch only, below those that kernels give to connections (32768): rank 0 takes the first that
// is free, the others look at all, and the keyed handshake tells it from strangers.
std::string derived_ports(const std::string& host, const std::string& launch) {
  constexpr int64_t kPorts = 8;
  constexpr int64_t kFirst = 20'000;
  constexpr int64_t kCount = 12'768;
  const std::string digest = hex_digest(launch);
  const int64_t start = std::stoll(digest.substr(0, 8), nullptr, 16);
  std::string list;
  for (int64_t i = 0; i < kPorts; ++i) {
    // Steps of a prime, so that jobs that begin side by side do not walk side by side.
    const int64_t port = kFirst + (start + i * 1009) % kCount;
    list += (list.empty() ? "" : ",") + *tcp_address(host, port);
  }
  return list;
}

std::string one_host(const std::string& launch) { return "unix://" + hex_digest(launch); }

Result<Rendezvous> from_torchrun(const std::string& host, int64_t port, const std::string& run) {
  const std::string launch =
      "torchrun " + run + " " + text_of("TORCHELASTIC_RESTART_COUNT", "0") + " " + host + " " + std::to_string(port);
  const std::string ranks_here = text_of("LOCAL_WORLD_SIZE", "");
  const bool on_one_host = !ranks_here.empty() && ranks_here == text_of("WORLD_SIZE", "");
  return Rendezvous{.address = on_one_host ? one_host(launch) : derived_ports(host, launch), .launch = launch};
}

Result<Rendezvous> from_master(const std::string& host, const std::string& port_text, const LaunchedAs& launched) {
  const Result<int64_t> port = parse_integer(port_text, 1, 65535);
  if (!port.ok()) return Status(Code::kInvalidArgument, "MASTER_PORT: " + port.status().message());
  const std::optional<std::string> run = read_environment("TORCHELASTIC_RUN_ID");
  if (run && launched.rank_variable == "RANK") return from_torchrun(host, *port, *run);
  return Rendezvous{.address = *tcp_address(host, *port), .launch = ""};
}

Result<Rendezvous> from_slurm() {
  const std::string launch =
      "slurm " + text_of("SLURM_JOB_ID", "0") + " " + text_of("SLURM_STEP_ID", "0") + " " + text_of("SLURM_RESTART_COUNT", "0");
  const std::string nodes = text_of("SLURM_STEP_NUM_NODES", text_of("SLURM_JOB_NUM_NODES", text_of("SLURM_NNODES", "1")));
  if (nodes == "1") return Rendezvous{.address = one_host(launch), .launch = launch};
  const bool step = read_environment("SLURM_STEP_NODELIST").has_value();
  const std::string variable = step ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
  Result<std::vector<std::string>> hosts = expand_host_list(text_of(variable, ""));
  if (!hosts.ok()) return Status(Code::kInvalidArgument, variable + ": " + hosts.status().message());
  return Rendezvous{.address = derived_ports(hosts->front(), launch), .launch = launch};
}

// The launcher's daemon on this host, by its end of PMI_FD: also where a shell stands between it and the rank. Without one, the
// parent, which is the daemon then.
std::string launchers_daemon() {
  const Result<int64_t> fd = parse_integer(text_of("PMI_FD", ""), 0, 1 << 20);
  ucred peer = {};
  socklen_t length = sizeof(peer);
  const bool known = fd.ok() && getsockopt(static_cast<int>(*fd), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.pid > 0;
  return std::to_string(known ? peer.pid : getppid());
}

Result<Rendezvous> from_mpi(const LaunchedAs& launched) {
  const bool pmi = launched.rank_variable == "PMI_RANK";
  // Slurm's --mpi=pmi2 speaks PMI-2, and says no more than Slurm's own variables.
  if (pmi && read_environment("PMI_JOBID") && read_environment("SLURM_STEP_ID")) return from_slurm();
  const std::optional<std::string> job = read_environment("PMIX_NAMESPACE");
  const std::string ranks_here = text_of(pmi ? "MPI_LOCALNRANKS" : "OMPI_COMM_WORLD_LOCAL_SIZE", "");
  if (ranks_here == std::to_string(launched.size)) {
    const std::string launch = "mpi " + (job ? *job : launchers_daemon());
    return Rendezvous{.address = one_host(launch), .launch = launch};
  }
  if (pmi && (read_environment("PMI_FD") || read_environment("PMI_PORT"))) {
    return Rendezvous{.address = std::string(kPmi), .launch = ""};
  }
  if (job) return Rendezvous{.address = std::string(kPmix), .launch = ""};
  return Status(Code::kInvalidArgument, "the launcher that set " + launched.rank_variable +
                                            " says neither that all ranks are on one host nor how those of several meet: set "
                                            "GIMBAL_RENDEZVOUS=tcp://host:port, with rank 0's host");
}

// Sessions of a process are numbered alike on all ranks, because communicators over a launcher's exchange are made in one
// order.
std::string next_key() {
  return "gimbal-" + std::to_string(ProcessRegistry::instance().permanent<std::atomic<uint32_t>>("launcher's exchanges")++);
}

constexpr std::string_view kNoKey = "-";

// What rank 0 passes on: a key, or "-" where every rank has one by GIMBAL_JOB_KEY, a comma, and where the store is.
struct Served {
  std::unique_ptr<Store> store;
  std::string word;
};

Result<Served> serve(Settings& settings) {
  const bool make_key = settings.job_key.empty();
  if (make_key) settings.job_key = to_hex(random_nonce());
  ASSIGN_OR_RETURN(PublishedStore published, serve_store_anywhere(settings.interfaces, settings.job_key));
  const std::string key = make_key ? settings.job_key : std::string(kNoKey);
  return Served{.store = std::move(published.store), .word = key + "," + published.rendezvous};
}

Result<std::unique_ptr<Store>> follow(const std::string& word, Settings& settings, Deadline deadline) {
  const size_t comma = word.find(',');
  if (comma == std::string::npos) {
    return Status(Code::kInternal, "the launcher passed on \"" + word + "\" as rank 0's address");
  }
  if (word.substr(0, comma) != kNoKey) settings.job_key = word.substr(0, comma);
  return open_store(word.substr(comma + 1), settings.rank, settings.job_key, deadline);
}

Result<std::unique_ptr<Store>> open_over_pmi(Settings& settings, Deadline deadline) {
  ASSIGN_OR_RETURN(const std::shared_ptr<PmiSession> session, PmiSession::of_this_process(deadline));
  const std::string key = next_key();
  if (settings.rank != 0) {
    RETURN_IF_ERROR(session->barrier(deadline));
    ASSIGN_OR_RETURN(const std::string word, session->get(key, deadline));
    return follow(word, settings, deadline);
  }
  ASSIGN_OR_RETURN(Served served, serve(settings));
  if (served.word.size() > session->max_value_bytes()) {
    return Status(Code::kUnsupported, "the launcher (PMI) passes values of at most " +
                                          std::to_string(session->max_value_bytes()) + " bytes, rank 0's address has " +
                                          std::to_string(served.word.size()) +
                                          ": set GIMBAL_SOCKET_IFNAME to fewer interfaces");
  }
  RETURN_IF_ERROR(session->put(key, served.word, deadline));
  RETURN_IF_ERROR(session->barrier(deadline));
  return std::move(served.store);
}

Result<std::unique_ptr<Store>> open_over_pmix(Settings& settings, Deadline deadline) {
  ASSIGN_OR_RETURN(const std::shared_ptr<PmixSession> session, PmixSession::of_this_process());
  const std::string key = next_key();
  if (settings.rank != 0) {
    ASSIGN_OR_RETURN(const std::string word, session->get(0, key, deadline));
    return follow(word, settings, deadline);
  }
  ASSIGN_OR_RETURN(Served served, serve(settings));
  RETURN_IF_ERROR(session->put(key, served.word));
  return std::move(served.store);
}

}  // namespace

Result<Rendezvous> read_rendezvous(const LaunchedAs& launched) {
  if (const auto address = read_environment("GIMBAL_RENDEZVOUS")) return Rendezvous{.address = *address, .launch = ""};
  const std::optional<std::string> host = read_environment("MASTER_ADDR");
  const std::optional<std::string> port = read_environment("MASTER_PORT");
  if (host && port) return from_master(*host, *port, launched);
  if (launched.rank_variable.starts_with("SLURM")) return from_slurm();
  if (launched.rank_variable.starts_with("OMPI") || launched.rank_variable.starts_with("PMI")) return from_mpi(launched);
  return Status(
      Code::kInvalidArgument,
      "nobody said where the ranks meet: set GIMBAL_RENDEZVOUS, or MASTER_ADDR and MASTER_PORT, or start with gimbal-run");
}

Result<std::unique_ptr<Store>> open_rendezvous(Settings& settings, Deadline deadline) {
  if (settings.rendezvous == kPmi) return open_over_pmi(settings, deadline);
  if (settings.rendezvous == kPmix) return open_over_pmix(settings, deadline);
  const std::string key = settings.launch.empty() ? settings.job_key : settings.job_key + '\n' + settings.launch;
  return open_store(settings.rendezvous, settings.rank, key, deadline);
}

}  // namespace gimbal
