#include "collectives/printer.h"

#include <algorithm>
#include <vector>

namespace gimbal {
namespace {

std::string with_index(size_t index, const Step& step) {
  std::string text = std::to_string(index) + ": " + describe(step);
  if (step.after != kNoStep) text += " after " + std::to_string(step.after);
  return text;
}

std::string arriving(const Step& step) {
  return " from " + std::to_string(step.peer) + " (" + std::string(payload_name(step.payload)) + ")";
}

std::string leaving(const Step& step, Rank to) {
  return " to " + std::to_string(to) + " (" + std::string(payload_name(step.sent)) + ")";
}

std::string named(const char* before, BufferId buffer) { return before + std::string(buffer_name(buffer)); }

}  // namespace

std::string_view op_name(Op op) {
  switch (op) {
    case Op::kSend:
      return "send";
    case Op::kRecv:
      return "recv";
    case Op::kRecvReduce:
      return "recv_reduce";
    case Op::kCopy:
      return "copy";
    case Op::kReduce:
      return "reduce";
    case Op::kRecvSend:
      return "recv_send";
    case Op::kRecvReduceSend:
      return "recv_reduce_send";
  }
  return "unknown";
}

std::string_view payload_name(Payload payload) {
  switch (payload) {
    case Payload::kRaw:
      return "raw";
    case Payload::kPartial:
      return "partial";
    case Payload::kFinal:
      return "final";
  }
  return "unknown";
}

std::string_view buffer_name(BufferId buffer) {
  switch (buffer) {
    case BufferId::kInput:
      return "input";
    case BufferId::kOutput:
      return "output";
    case BufferId::kScratch:
      return "scratch";
    case BufferId::kNone:
      return "none";
  }
  return "unknown";
}

std::string describe_run(uint32_t chunk, uint32_t count) {
  if (count == 1) return "chunk " + std::to_string(chunk);
  return "chunks " + std::to_string(chunk) + ".." + std::to_string(uint64_t{chunk} + count - 1);
}

std::string describe(const Step& step) {
  std::string start = std::string(op_name(step.op)) + " " + describe_run(step.chunk, step.count);
  switch (step.op) {
    case Op::kSend:
      return start + named(" ", step.src) + leaving(step, step.peer);
    case Op::kRecv:
      return start + arriving(step) + named(" -> ", step.dst);
    case Op::kRecvReduce:
      return start + arriving(step) + named(" + ", step.src) + named(" -> ", step.dst);
    case Op::kCopy:
      return start + named(" ", step.src) + named(" -> ", step.dst);
    case Op::kReduce:
      return start + " scratch" + named(" + ", step.src) + named(" -> ", step.dst);
    case Op::kRecvSend:
      return start + arriving(step) + named(" -> ", step.dst) + "," + leaving(step, step.forward_to);
    case Op::kRecvReduceSend:
      return start + arriving(step) + named(" + ", step.src) + named(" -> ", step.dst) + "," + leaving(step, step.forward_to);
  }
  return start;
}

std::string print(const Schedule& schedule) {
  std::string text = std::to_string(schedule.chunk_count) + " chunks, " + std::to_string(schedule.channels) + " channels, " +
                     std::to_string(schedule.steps.size()) + " steps\n";
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    text += "channel " + std::to_string(step.channel) + "  " + with_index(i, step) + "\n";
  }
  return text;
}

std::string print_side_by_side(std::span<const Schedule> schedules) {
  size_t rows = 0;
  for (const Schedule& schedule : schedules) rows = std::max(rows, schedule.steps.size());
  std::vector<std::string> lines(rows + 1);
  for (size_t rank = 0; rank < schedules.size(); ++rank) {
    const std::vector<Step>& steps = schedules[rank].steps;
    lines[0] += "rank " + std::to_string(rank);
    for (size_t i = 0; i < steps.size(); ++i) lines[i + 1] += with_index(i, steps[i]);
    if (rank + 1 == schedules.size()) break;
    size_t width = 0;
    for (const std::string& line : lines) width = std::max(width, line.size());
    for (std::string& line : lines) line.resize(width + 3, ' ');
  }
  std::string text;
  for (const std::string& line : lines) text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  return text;
}

}  // namespace gimbal
