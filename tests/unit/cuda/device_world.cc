#include "tests/unit/cuda/device_world.h"

#include <algorithm>
#include <utility>

namespace gimbal::test {
namespace {

constexpr uint64_t kTag = 0x1234'5678'9ABC'DEF0;

template <typename T>
void upload(const DeviceArray<T>& to, const std::vector<T>& values) {
  cudaMemcpy(to.get(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
}

}  // namespace

struct DeviceWorld::OneRank {
  OneRank(std::unique_ptr<WorldRank> host_rank, const CollectiveCase& c, size_t slot_bytes)
      : host(std::move(host_rank)),
        link_count(static_cast<size_t>(c.nranks) * c.channels),
        slot_count((c.window - 1) * c.algorithm->window_runs + 1),
        slot_stride(slot_bytes),
        input(host->input.size() + 1),
        output(host->output.size() + 1),
        scratch(host->scratch.size() + 1),
        slots(link_count * slot_count * slot_bytes),
        headers(link_count * slot_count),
        counters(link_count * 4),
        outgoing(link_count),
        incoming(link_count) {
    cudaMemcpy(input.get(), host->input.data(), host->input.size(), cudaMemcpyHostToDevice);
    cudaMemcpy(output.get(), host->output.data(), host->output.size(), cudaMemcpyHostToDevice);
    for (const auto& channel : host->plan.steps) {
      for (const auto& list : channel) {
        plan_runs.push_back({static_cast<uint32_t>(plan_steps.size()), static_cast<uint32_t>(list.size())});
        plan_steps.insert(plan_steps.end(), list.begin(), list.end());
      }
    }
    steps = std::make_unique<DeviceArray<PlanStep>>(plan_steps);
    runs = std::make_unique<DeviceArray<device::PlanRun>>(plan_runs);
  }

  // The words of the link with a peer on a channel: tail, head, and the positions of its two ends.
  [[nodiscard]] uint64_t* counter(size_t link, size_t which) const { return counters.get() + link * 4 + which; }

  std::unique_ptr<WorldRank> host;
  size_t link_count, slot_count, slot_stride;
  std::vector<PlanStep> plan_steps;
  std::vector<device::PlanRun> plan_runs;
  std::unique_ptr<DeviceArray<PlanStep>> steps;
  std::unique_ptr<DeviceArray<device::PlanRun>> runs;
  DeviceArray<std::byte> input, output, scratch, slots;
  DeviceArray<device::SlotHeader> headers;
  DeviceArray<uint64_t> counters;
  DeviceArray<device::DeviceLink> outgoing, incoming;
  std::vector<device::DeviceLink> outgoing_links, incoming_links;
  Report report;
  Stream stream;
};

DeviceWorld::DeviceWorld(const CollectiveCase& c, const InputFunction& input, const DeviceOptions& options)
    : case_(c), options_(options) {
  const size_t slot_bytes =
      options.protocol == device::Protocol::kSimple ? c.slice_bytes : device::packet_slot_bytes(c.slice_bytes);
  for (Rank r = 0; r < c.nranks; ++r) {
    auto host = make_world_rank(c, r, input);
    ranks_.push_back(std::make_unique<OneRank>(std::move(*host), c, slot_bytes));
    ranks_.back()->outgoing_links.resize(ranks_.back()->link_count);
    ranks_.back()->incoming_links.resize(ranks_.back()->link_count);
  }
  for (Rank from = 0; from < c.nranks; ++from) {
    for (Rank to = 0; to < c.nranks; ++to) {
      if (from != to) connect(from, to);
    }
  }
  for (const auto& rank : ranks_) {
    upload(rank->outgoing, rank->outgoing_links);
    upload(rank->incoming, rank->incoming_links);
  }
}

DeviceWorld::~DeviceWorld() = default;

void DeviceWorld::connect(Rank from, Rank to) {
  OneRank& sender = *ranks_[static_cast<size_t>(from)];
  OneRank& receiver = *ranks_[static_cast<size_t>(to)];
  for (size_t channel = 0; channel < case_.channels; ++channel) {
    const size_t at_sender = static_cast<size_t>(to) * case_.channels + channel;
    const size_t at_receiver = static_cast<size_t>(from) * case_.channels + channel;
    device::DeviceLink link{};
    link.slots = receiver.slots.get() + at_receiver * receiver.slot_count * receiver.slot_stride;
    link.headers = receiver.headers.get() + at_receiver * receiver.slot_count;
    link.tail = receiver.counter(at_receiver, 0);
    link.head = sender.counter(at_sender, 1);
    link.slot_stride = receiver.slot_stride;
    link.slot_count = static_cast<uint32_t>(receiver.slot_count);
    link.position = sender.counter(at_sender, 2);
    sender.outgoing_links[at_sender] = link;
    link.position = receiver.counter(at_receiver, 3);
    receiver.incoming_links[at_receiver] = link;
  }
}

bool DeviceWorld::run() {
  bool launched = true;
  for (Rank r = 0; r < case_.nranks; ++r) {
    if (r == options_.absent) continue;
    OneRank& rank = *ranks_[static_cast<size_t>(r)];
    const Plan& plan = rank.host->plan;
    device::InterpreterArguments arguments{};
    arguments.steps = rank.steps->get();
    arguments.runs = rank.runs->get();
    arguments.outgoing = rank.outgoing.get();
    arguments.incoming = rank.incoming.get();
    std::byte* const output = rank.output.get() + rank.host->in_place_output_offset;
    std::byte* const input = rank.host->in_place ? rank.output.get() + rank.host->in_place_offset : rank.input.get();
    arguments.buffers = {input, output, rank.scratch.get()};
    arguments.form_bytes = plan.form_bytes;
    arguments.slice_elements = plan.slice_elements;
    arguments.segment_elements = plan.segment_elements;
    arguments.segments = plan.segments;
    arguments.channels = plan.channels;
    arguments.tag = r == options_.other_tag ? kTag + 1 : kTag;
    arguments.weight = rank.host->weight;
    arguments.divisor = plan.divisor * rank.host->divisor;
    arguments.op = plan.reduce != nullptr ? case_.op : ReduceOp::kSum;
    arguments.protocol = options_.protocol;
    arguments.watch = rank.report.watch(options_.timeout_ns);
    const DType dtype = plan.reduce != nullptr ? case_.dtype : DType::kUint8;
    launched &= device::launch_interpreter(dtype, arguments, options_.threads, rank.stream.get()) == cudaSuccess;
  }
  for (const auto& rank : ranks_) {
    if (options_.aborts) std::atomic_ref<uint32_t>(rank->report.get().abort).store(1, std::memory_order_relaxed);
  }
  for (const auto& rank : ranks_) launched &= rank->stream.finish() == cudaSuccess;
  return launched;
}

std::vector<std::byte> DeviceWorld::output(Rank rank) const {
  const OneRank& one = *ranks_[static_cast<size_t>(rank)];
  const size_t bytes = buffer_sizes(case_, rank).output * dtype_size(case_.dtype);
  const std::vector<std::byte> all = one.output.read();
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(one.host->in_place_output_offset);
  return {begin, begin + static_cast<std::ptrdiff_t>(bytes)};
}

const Report& DeviceWorld::report(Rank rank) const { return ranks_[static_cast<size_t>(rank)]->report; }

}  // namespace gimbal::test
