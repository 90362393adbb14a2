#include "runtime/plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "collectives/chunk_space.h"

namespace gimbal {
namespace {

bool receives(Op op) { return op == Op::kRecv || op == Op::kRecvReduce || op == Op::kRecvSend || op == Op::kRecvReduceSend; }
bool sends(Op op) { return op == Op::kSend || op == Op::kRecvSend || op == Op::kRecvReduceSend; }
bool has_src(Op op) { return op != Op::kRecv && op != Op::kRecvSend; }
bool has_dst(const Step& step) { return step.op != Op::kSend && step.dst != BufferId::kNone; }

Cursor cursor_of(Op op) { return op == Op::kSend ? Cursor::kSends : Cursor::kOthers; }
size_t index(Cursor cursor) { return static_cast<size_t>(cursor); }

// Scratch holds only the chunks that the steps use there, in the order of their numbers, so that runs stay in one piece.
class ScratchMap {
 public:
  ScratchMap(const Schedule& schedule, const ChunkTable& chunks) {
    for (const Step& step : schedule.steps) {
      const bool uses = step.op == Op::kReduce || (has_src(step.op) && step.src == BufferId::kScratch) ||
                        (has_dst(step) && step.dst == BufferId::kScratch);
      for (uint32_t i = 0; uses && i < step.count; ++i) chunks_.push_back(step.chunk + i);
    }
    std::sort(chunks_.begin(), chunks_.end());
    chunks_.erase(std::unique(chunks_.begin(), chunks_.end()), chunks_.end());
    for (const uint32_t chunk : chunks_) {
      offsets_.push_back(elements_);
      elements_ += chunks.count(chunk);
    }
  }

  [[nodiscard]] size_t offset(uint32_t chunk) const {
    return offsets_[static_cast<size_t>(std::lower_bound(chunks_.begin(), chunks_.end(), chunk) - chunks_.begin())];
  }
  [[nodiscard]] size_t elements() const { return elements_; }

 private:
  std::vector<uint32_t> chunks_;
  std::vector<size_t> offsets_;
  size_t elements_ = 0;
};

class PlanBuilder {
 public:
  PlanBuilder(const Schedule& schedule, const PlanOptions& options, ChunkTable chunks)
      : schedule_(schedule), options_(options), chunks_(std::move(chunks)), scratch_(schedule, chunks_) {}

  Result<Plan> build() {
    RETURN_IF_ERROR(set_types());
    RETURN_IF_ERROR(set_slices());
    plan_.channels = schedule_.channels;
    plan_.steps.resize(schedule_.channels);
    plan_.scratch_bytes = plan_.bytes(Form::kPartial, scratch_.elements());
    places_.resize(schedule_.steps.size());
    for (uint32_t i = 0; i < schedule_.steps.size(); ++i) RETURN_IF_ERROR(add_step(i));
    link_segments();
    std::sort(plan_.peers.begin(), plan_.peers.end());
    plan_.peers.erase(std::unique(plan_.peers.begin(), plan_.peers.end()), plan_.peers.end());
    return std::move(plan_);
  }

 private:
  Status set_types() {
    const DType dtype = options_.dtype;
    adds_ = reduces(options_.layout.collective);
    const DType accumulator = adds_ ? accumulator_type(dtype, options_.op) : dtype;
    plan_.form_bytes = {dtype_size(dtype), dtype_size(accumulator)};
    forms_are_equal_ = accumulator == dtype;
    divides_ = adds_ && (options_.op == ReduceOp::kAvg || options_.weighted);
    const bool wide_integer = !is_floating(dtype) && !forms_are_equal_;
    wire_ = {options_.weighted ? Form::kPartial : Form::kElement,
             options_.element_partials && !wide_integer ? Form::kElement : Form::kPartial, Form::kElement};
    if (!adds_) return {};
    if (options_.op == ReduceOp::kAvg) plan_.divisor = static_cast<double>(options_.layout.nranks);
    plan_.reduce = find_reduce(dtype, options_.op);
    if (plan_.reduce != nullptr) return {};
    return Status(Code::kUnsupported, "operation " + std::string(reduce_op_name(options_.op)) + " on type " +
                                          std::string(dtype_name(dtype)) + " is not defined");
  }

  Status set_slices() {
    const size_t widest = std::max(plan_.form_bytes[0], plan_.form_bytes[1]);
    const bool fused = std::any_of(schedule_.steps.begin(), schedule_.steps.end(),
                                   [](const Step& step) { return receives(step.op) && sends(step.op); });
    const size_t least_window = fused ? 2 : 1;
    plan_.slice_elements = options_.slice_bytes / widest;
    if (plan_.slice_elements == 0 || options_.window < least_window) {
      return Status(Code::kUnsupported, "a window of " + std::to_string(options_.window) + " slices of " +
                                            std::to_string(options_.slice_bytes) + " bytes; the schedule needs " +
                                            std::to_string(least_window) + " of at least " + std::to_string(widest));
    }
    const size_t segment_slices = std::max<size_t>(options_.window - 1, 1);
    const size_t largest = chunks_.largest_count();
    if ((largest + plan_.slice_elements - 1) / plan_.slice_elements > segment_slices) {
      plan_.segment_elements = plan_.slice_elements * segment_slices;
      plan_.segments = static_cast<uint32_t>((largest - 1) / plan_.segment_elements + 1);
    }
    return {};
  }

  [[nodiscard]] Form wire_form(Payload payload) const { return wire_[static_cast<size_t>(payload)]; }

  [[nodiscard]] Result<size_t> place(BufferId buffer, uint32_t chunk, uint32_t schedule_step) const {
    if (buffer == BufferId::kScratch) return plan_.bytes(Form::kPartial, scratch_.offset(chunk));
    if (const auto offset = chunks_.offset(buffer, chunk)) return plan_.bytes(Form::kElement, *offset);
    return Status(Code::kInternal, "schedule step " + std::to_string(schedule_step) + " uses chunk " + std::to_string(chunk) +
                                       " in the " + (buffer == BufferId::kInput ? "input" : "output") + " of rank " +
                                       std::to_string(options_.layout.rank) + ", which does not hold it");
  }

  // One plan step for a run, or one for each of its chunks where a run is not one piece of memory on all ranks.
  Status add_step(uint32_t schedule_step) {
    const Step& step = schedule_.steps[schedule_step];
    GIMBAL_DCHECK(step.channel < schedule_.channels && step.count > 0 && step.chunk + step.count <= schedule_.chunk_count);
    GIMBAL_DCHECK(step.after == kNoStep || static_cast<uint32_t>(step.after) < schedule_step);
    const bool whole = chunks_.runs_are_contiguous() && plan_.segments == 1;
    for (uint32_t i = 0; i < step.count; i += whole ? step.count : 1) {
      size_t elements = chunks_.count(step.chunk + i);
      for (uint32_t j = 1; whole && j < step.count; ++j) elements += chunks_.count(step.chunk + j);
      RETURN_IF_ERROR(add_piece(schedule_step, step.chunk + i, elements));
    }
    return {};
  }

  Status add_piece(uint32_t schedule_step, uint32_t chunk, size_t elements) {
    const Step& step = schedule_.steps[schedule_step];
    PlanStep piece;
    piece.op = step.op;
    piece.elements = elements;
    piece.schedule_step = schedule_step;
    if (has_src(step.op)) {
      piece.src = step.src;
      ASSIGN_OR_RETURN(piece.src_offset, place(step.src, chunk, schedule_step));
    }
    if (has_dst(step)) {
      piece.dst = step.dst;
      ASSIGN_OR_RETURN(piece.dst_offset, place(step.dst, chunk, schedule_step));
    }
    if (step.op == Op::kReduce) piece.left_offset = plan_.bytes(Form::kPartial, scratch_.offset(chunk));
    if (receives(step.op)) piece.peer = step.peer;
    if (sends(step.op)) piece.to = step.op == Op::kSend ? step.peer : step.forward_to;
    for (const Rank peer : {piece.peer, piece.to}) {
      if (peer != kNoRank) plan_.peers.push_back(peer);
    }
    if (step.after != kNoStep) {
      const Place& place = places_[static_cast<size_t>(step.after)];
      piece.after = place.position;
      piece.after_cursor = place.cursor;
    }
    set_forms(step, piece);
    std::vector<PlanStep>& list = plan_.steps[step.channel][index(cursor_of(step.op))];
    places_[schedule_step] = {static_cast<uint32_t>(list.size()), cursor_of(step.op)};
    list.push_back(piece);
    return {};
  }

  // What a step's only source is, until it has been combined with others.
  enum class Value : uint8_t { kRaw, kPartial, kFinal };

  [[nodiscard]] static Value value_of(BufferId buffer) {
    if (buffer == BufferId::kInput) return Value::kRaw;
    return buffer == BufferId::kScratch ? Value::kPartial : Value::kFinal;
  }

  [[nodiscard]] Value value_of(Payload payload) const {
    if (payload == Payload::kFinal) return Value::kFinal;
    return payload == Payload::kRaw && !options_.weighted ? Value::kRaw : Value::kPartial;
  }

  void set_forms(const Step& step, PlanStep& piece) const {
    piece.received_form = wire_form(step.payload);
    piece.src_form = piece.src == BufferId::kScratch ? Form::kPartial : Form::kElement;
    const Payload leaving = step.op == Op::kSend ? step.payload : step.sent;
    const bool combines = step.op == Op::kReduce || step.op == Op::kRecvReduce || step.op == Op::kRecvReduceSend;
    const Form source = receives(step.op) ? piece.received_form : piece.src_form;
    const Value value = receives(step.op) ? value_of(step.payload) : value_of(step.src);
    const bool final_source = combines ? false : value == Value::kFinal;
    const auto target = [&](Form form, bool final_target) {
      PlanTarget result;
      result.form = form;
      result.divides = final_target && !final_source && divides_;
      const bool multiplies = options_.weighted && piece.src == BufferId::kInput;
      result.is_copy = !combines && !multiplies && !result.divides && (source == form || forms_are_equal_);
      return result;
    };
    if (sends(step.op)) piece.sent = target(wire_form(leaving), leaving == Payload::kFinal);
    if (piece.dst != BufferId::kNone) {
      const bool output = piece.dst == BufferId::kOutput;
      piece.stored = target(output ? Form::kElement : Form::kPartial, output);
    }
    piece.same_targets = sends(step.op) && piece.dst != BufferId::kNone && piece.sent.divides == piece.stored.divides &&
                         (piece.sent.form == piece.stored.form || (forms_are_equal_ && !piece.sent.divides));
  }

  // Messages to one peer keep their order from segment to segment, though two cursors send them.
  void link_segments() {
    if (plan_.segments == 1) return;
    for (auto& channel : plan_.steps) {
      for (const Cursor cursor : {Cursor::kSends, Cursor::kOthers}) {
        const Cursor other = cursor == Cursor::kSends ? Cursor::kOthers : Cursor::kSends;
        std::vector<uint32_t> last(static_cast<size_t>(options_.layout.nranks), kNoPosition);
        const std::vector<PlanStep>& list = channel[index(other)];
        for (uint32_t i = 0; i < list.size(); ++i) {
          if (list[i].to != kNoRank) last[static_cast<size_t>(list[i].to)] = i;
        }
        for (PlanStep& step : channel[index(cursor)]) {
          if (step.to != kNoRank) step.previous = last[static_cast<size_t>(step.to)];
        }
      }
    }
  }

  struct Place {
    uint32_t position;
    Cursor cursor;
  };

  const Schedule& schedule_;
  const PlanOptions& options_;
  ChunkTable chunks_;
  ScratchMap scratch_;
  Plan plan_;
  std::vector<Place> places_;   // of each schedule step's last piece
  std::array<Form, 3> wire_{};  // by Payload
  bool adds_ = false;
  bool divides_ = false;
  bool forms_are_equal_ = true;
};

}  // namespace

Result<Plan> make_plan(const Schedule& schedule, const PlanOptions& options) {
  ASSIGN_OR_RETURN(ChunkTable chunks, ChunkTable::make(options.layout, dtype_size(options.dtype), schedule.chunk_count));
  return PlanBuilder(schedule, options, std::move(chunks)).build();
}

}  // namespace gimbal
