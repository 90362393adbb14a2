#include "tests/support/hostile_verbs/context.h"

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "tests/support/hostile_verbs/queue_pair.h"

namespace gimbal::hostile {
namespace {

constexpr int64_t kLongestSleepNs = 1'000'000'000;

int64_t now_ns() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

}  // namespace

Context::Context(Device* opened, Hostility what, std::shared_ptr<Fabric> where, uint32_t number)
    : ibv_context{},
      hostility(std::move(what)),
      fabric(std::move(where)),
      adapter(number),
      device_index(opened->index),
      memory(hostility.memlock),
      dice_(hostility.seed, number),
      link_reported_(kPortsPerDevice) {
  device = opened;
  cmd_fd = -1;
  async_fd = async_events.fd();
  num_comp_vectors = 1;
  for (uint8_t port = 1; port <= ports(); ++port) link_reported_[port - 1U] = !fabric->has_link(address(port));
  thread_ = std::thread([this] { run(); });
}

Context::~Context() {
  stop_.store(true, std::memory_order_release);
  ring();
  thread_.join();
}

// hostile0 has one port. hostile1 has two, and nothing is plugged into the second.
uint8_t Context::ports() const { return device_index == 0 ? 1 : 2; }

PortAddress Context::address(uint8_t port) const { return {fabric->host(), static_cast<uint8_t>(device_index), port}; }

void Context::raise(ibv_event_type type, Qp* qp) {
  ibv_async_event event = {};
  event.event_type = type;
  event.element.qp = qp;
  async_events.push(event);
}

bool Context::fails(std::string_view call) {
  const auto failing = hostility.failing_calls.find(call);
  if (failing == hostility.failing_calls.end()) return false;
  const std::lock_guard<std::mutex> guard(calls_mutex_);
  const auto found = failing->second.find(++calls_[failing->first]);
  if (found == failing->second.end()) return false;
  errno = found->second;
  return true;
}

bool Context::breaks_queue_pair(const PortAddress& port) {
  ++messages_;
  const auto is_here = [&](const std::map<uint64_t, Hostility::MessageFault>& faults) {
    const auto fault = faults.find(messages_);
    return fault != faults.end() && fault->second.device == device_index &&
           (fault->second.port == 0 || fault->second.port == port.port);
  };
  if (is_here(hostility.cut_links)) fabric->cut_link(port);
  return is_here(hostility.broken_queue_pairs);
}

void Context::run() {
  while (!stop_.load(std::memory_order_acquire)) {
    const uint32_t seen = fabric->doorbell(adapter);
    const int64_t now = now_ns();
    Turn turn = {.now_ns = now, .wake_at_ns = now + kLongestSleepNs};
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      take_turn(turn);
    }
    while (waiting_.load(std::memory_order_relaxed) > 0) std::this_thread::yield();
    if (!turn.moved && turn.wake_at_ns > now) fabric->sleep(adapter, seen, turn.wake_at_ns - now);
  }
}

void Context::take_turn(Turn& turn) {
  if (hostility.hostile()) std::shuffle(queue_pairs.begin(), queue_pairs.end(), dice_.engine());
  for (Qp* const qp : queue_pairs) qp->advance(turn);
  report_cut_links();
}

void Context::report_cut_links() {
  for (uint8_t port = 1; port <= ports(); ++port) {
    if (link_reported_[port - 1U] || fabric->has_link(address(port))) continue;
    link_reported_[port - 1U] = true;
    ibv_async_event event = {};
    event.event_type = IBV_EVENT_PORT_ERR;
    event.element.port_num = port;
    async_events.push(event);
  }
}

}  // namespace gimbal::hostile
