// What TCP gives between two hosts, and how much of it a TcpEndpoint leaves: the time of a ping-pong and of an exchange in both
// directions at once, for plain sockets and for endpoints over both pollers, interleaved in one run.
//
//   tests/support/hosts run -- build/bench/tcp_streams/bench_tcp_streams --rank {host} --address {address0}:4021 --streams 2
//
// Rank 0 prints one line of JSON per size: the median of each way in microseconds. A ping-pong is half of a round trip.
#include <poll.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "bench/tcp_streams/links.h"
#include "transport/socket.h"

namespace {

using bench::Link;
using gimbal::FileDescriptor;

struct Options {
  int rank = 0;
  std::string address;
  uint32_t streams = 1;
  size_t slot_bytes = size_t{64} << 10;
  double seconds = 0.5;  // per size and way
};

// The connections of a run, made in the same order on both sides.
class Connections {
 public:
  explicit Connections(const Options& options) : rank_(options.rank), deadline_(gimbal::Deadline::after_ms(20'000)) {
    const auto addresses = gimbal::resolve_tcp(options.address);
    if (!addresses.ok()) bench::give_up(addresses.status().message());
    address_ = addresses->front();
    if (rank_ != 0) return;
    auto listener = gimbal::listen_on(address_);
    if (!listener.ok()) bench::give_up(listener.status().message());
    listener_ = std::move(listener).value();
  }

  FileDescriptor next() {
    while (!deadline_.passed()) {
      gimbal::ConnectAttempt made;
      if (rank_ == 0) {
        gimbal::wait_for(listener_.get(), POLLIN, deadline_);
        made = gimbal::accept_from(listener_.get());
      } else {
        made = gimbal::connect_to(address_, deadline_);
      }
      if (made.fd.valid()) return std::move(made.fd);
      std::this_thread::yield();  // rank 0 does not listen yet
    }
    bench::give_up("no connection over " + address_.text);
  }
  std::vector<FileDescriptor> next(uint32_t streams) {
    std::vector<FileDescriptor> sockets;
    for (uint32_t i = 0; i < streams; ++i) sockets.push_back(next());
    return sockets;
  }

 private:
  const int rank_;
  const gimbal::Deadline deadline_;
  gimbal::SocketAddress address_;
  FileDescriptor listener_;
};

double ping_pong_us(Link& link, bool first, size_t bytes, int times) {
  const int64_t began = gimbal::monotonic_ns();
  for (int i = 0; i < times; ++i) {
    if (first) link.send(bytes);
    link.receive(bytes);
    if (!first) link.send(bytes);
  }
  return static_cast<double>(gimbal::monotonic_ns() - began) / 2000 / times;
}

double exchange_us(Link& link, size_t bytes) {
  const int64_t began = gimbal::monotonic_ns();
  link.exchange(bytes);
  return static_cast<double>(gimbal::monotonic_ns() - began) / 1000;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

struct Way {
  const char* name;
  std::unique_ptr<Link> link;
};

using Times = std::map<std::string, std::vector<double>>;

void run_round(bool pings, std::vector<Way>& ways, size_t bytes, const Options& options, Times& times) {
  constexpr int kPingPongs = 20;
  for (Way& way : ways) {
    const double us = pings ? ping_pong_us(*way.link, options.rank == 0, bytes, kPingPongs) : exchange_us(*way.link, bytes);
    times[way.name].push_back(us);
  }
}

// As many rounds as rank 0 finds time for; it says the number to rank 1.
int64_t agree_on_rounds(double round_seconds, const Options& options, const FileDescriptor& control) {
  int64_t rounds = static_cast<int64_t>(options.seconds / round_seconds) + 3;
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(&rounds, 1));
  const gimbal::Deadline deadline = gimbal::Deadline::after_ms(60'000);
  const gimbal::Status status = options.rank == 0 ? gimbal::write_all(control.get(), bytes, "rank 1", deadline)
                                                  : gimbal::read_all(control.get(), bytes, "rank 0", deadline);
  if (!status.ok()) bench::give_up(status.message());
  return rounds;
}

void measure(bool pings, std::vector<Way>& ways, size_t bytes, const Options& options, const FileDescriptor& control) {
  Times times;
  run_round(pings, ways, bytes, options, times);
  const int64_t began = gimbal::monotonic_ns();
  run_round(pings, ways, bytes, options, times);
  const double round_seconds = static_cast<double>(gimbal::monotonic_ns() - began) / 1e9;
  times.clear();
  const int64_t rounds = agree_on_rounds(round_seconds, options, control);
  for (int64_t round = 0; round < rounds; ++round) run_round(pings, ways, bytes, options, times);
  if (options.rank != 0) return;
  std::printf("{\"what\": \"%s\", \"streams\": %u, \"bytes\": %zu, \"rounds\": %lld", pings ? "ping_pong" : "exchange",
              pings ? 1 : options.streams, bytes, static_cast<long long>(rounds));
  for (const Way& way : ways) std::printf(", \"%s_us\": %.2f", way.name, median(times[way.name]));
  std::printf("}\n");
  std::fflush(stdout);
}

void run(const Options& options) {
  Connections connections(options);
  const FileDescriptor control = connections.next();
  std::vector<Way> ways;
  ways.push_back({"plain_blocking", bench::make_plain_link(connections.next(options.streams), bench::Waiting::kBlocking)});
  ways.push_back({"plain_spinning", bench::make_plain_link(connections.next(options.streams), bench::Waiting::kSpinning)});
  for (const gimbal::SocketIo io : {gimbal::SocketIo::kEpoll, gimbal::SocketIo::kUring}) {
    if (!gimbal::SocketPoller::create(io).ok()) continue;
    const char* const name = io == gimbal::SocketIo::kEpoll ? "endpoint_epoll" : "endpoint_uring";
    ways.push_back({name, bench::make_endpoint_link(connections.next(options.streams), io, options.slot_bytes)});
  }
  for (size_t bytes = 8; bytes <= (size_t{64} << 10); bytes *= 8) measure(true, ways, bytes, options, control);
  for (size_t bytes = size_t{1} << 20; bytes <= (size_t{64} << 20); bytes *= 8) measure(false, ways, bytes, options, control);
  // Who closes while the other still reads resets what is on its way.
  for (const int speaker : {0, 1}) {
    std::byte done = {};
    const gimbal::Deadline deadline = gimbal::Deadline::after_ms(60'000);
    const gimbal::Status status = options.rank == speaker
                                      ? gimbal::write_all(control.get(), {&done, 1}, "the other side", deadline)
                                      : gimbal::read_all(control.get(), {&done, 1}, "the other side", deadline);
    if (!status.ok()) bench::give_up(status.message());
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Plain TCP between two processes, and what endpoints make of it");
  app.add_option("--rank", options.rank, "0 listens and prints, 1 connects")->required()->check(CLI::Range(0, 1));
  app.add_option("--address", options.address, "host:port of rank 0")->required();
  app.add_option("--streams", options.streams, "connections of each way")->check(CLI::Range(1, 64));
  app.add_option("--slot-bytes", options.slot_bytes, "of the endpoints' messages")->check(CLI::Range(4096, 16 << 20));
  app.add_option("--seconds", options.seconds, "for each size");
  CLI11_PARSE(app, argc, argv);
  run(options);
  return 0;
}
