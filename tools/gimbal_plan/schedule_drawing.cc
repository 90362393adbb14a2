#include "tools/gimbal_plan/schedule_drawing.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "collectives/chunk_space.h"
#include "collectives/node_shape.h"
#include "tools/gimbal_plan/moments.h"
#include "tools/gimbal_topo/svg.h"
#include "tools/gimbal_topo/words.h"

namespace gimbal {
namespace {

constexpr std::string_view kInk = "#1f2933";
constexpr std::string_view kFaint = "#7b8794";
constexpr std::string_view kEdge = "#cbd2d9";
constexpr std::string_view kNothing = "#f1f3f5";
constexpr std::string_view kFinal = "#2f9e44";
constexpr std::string_view kNode = "#f5f0e8";

constexpr double kMargin = 28;
constexpr double kTop = 92;
constexpr double kLabelWidth = 64;
constexpr double kCellWidth = 22;
constexpr double kColumnPitch = 62;
constexpr double kBandGap = 12;
constexpr double kNodeGap = 18;
constexpr double kMostBandHeight = 96;
constexpr double kMostCellHeight = 12;
constexpr double kLegendHeight = 64;

std::string_view message_color(Payload payload) {
  switch (payload) {
    case Payload::kRaw:
      return "#5c7cfa";
    case Payload::kPartial:
      return "#f08c00";
    case Payload::kFinal:
      return kFinal;
  }
  return kInk;
}

// From pale for one input to deep blue for all of them.
std::string sum_color(uint32_t inputs, Rank nranks) {
  constexpr int kPale[] = {208, 226, 245};
  constexpr int kDeep[] = {24, 90, 164};
  const double share = nranks > 1 ? (inputs - 1.0) / (nranks - 1.0) : 1;
  char text[8];
  int value[3];
  for (size_t i = 0; i < 3; ++i) value[i] = kPale[i] + static_cast<int>((kDeep[i] - kPale[i]) * share);
  std::snprintf(text, sizeof(text), "#%02x%02x%02x", value[0], value[1], value[2]);
  return text;
}

class Drawing {
 public:
  Drawing(const CollectiveSpec& spec, std::vector<Moment> moments) : spec_(spec), moments_(std::move(moments)) {
    const size_t chunks = moments_[0].chunks[0].size();
    cell_height_ = std::min(kMostCellHeight, kMostBandHeight / static_cast<double>(chunks));
    band_height_ = cell_height_ * static_cast<double>(chunks);
    place_bands();
    width_ = std::max(kMargin * 2 + kLabelWidth + kColumnPitch * static_cast<double>(moments_.size()), 640.0);
  }

  std::string draw(const std::string& title) {
    draw_nodes();
    for (size_t moment = 0; moment < moments_.size(); ++moment) draw_messages(moment);
    for (size_t moment = 0; moment < moments_.size(); ++moment) draw_column(moment);
    draw_labels(title);
    draw_legend();
    return svg_.finish(width_, bottom_ + kLegendHeight);
  }

 private:
  // Ranks of one node next to each other.
  void place_bands() {
    bands_.resize(static_cast<size_t>(spec_.nranks));
    double y = kTop;
    for (Rank node = 0; node < spec_.nodes->nodes(); ++node) {
      for (const Rank rank : spec_.nodes->members(node)) {
        bands_[static_cast<size_t>(rank)] = y;
        y += band_height_ + kBandGap;
      }
      if (is_hierarchical()) y += kNodeGap;
    }
    bottom_ = y;
  }

  [[nodiscard]] bool is_hierarchical() const {
    return spec_.nodes->nodes() > 1 && spec_.nodes->nodes() < spec_.nodes->nranks();
  }
  [[nodiscard]] static double column(size_t moment) {
    return kMargin + kLabelWidth + kColumnPitch * static_cast<double>(moment);
  }
  [[nodiscard]] double middle(Rank rank, uint32_t chunk, uint32_t count) const {
    return bands_[static_cast<size_t>(rank)] + cell_height_ * (chunk + count / 2.0);
  }

  void draw_nodes() {
    if (!is_hierarchical()) return;
    for (Rank node = 0; node < spec_.nodes->nodes(); ++node) {
      const double top = bands_[static_cast<size_t>(spec_.nodes->members(node).front())] - 8;
      const double height = (band_height_ + kBandGap) * spec_.nodes->size_of(node) + 4;
      svg_.box(kMargin - 12, top, width_ - 2 * kMargin + 24, height, kNode, {kNode}, 10);
      svg_.text(width_ - kMargin, top + 14, "node " + std::to_string(node), 11, kFaint, "end");
    }
  }

  void draw_messages(size_t moment) {
    const double left = column(moment) + kCellWidth + 1;
    const double right = column(moment + 1) - 1;
    for (const MessageInFlight& message : moments_[moment].messages) {
      const Stroke stroke = {message_color(message.payload), std::clamp(0.9 + 0.35 * message.count, 0.9, 3.0)};
      svg_.line(left, middle(message.from, message.chunk, message.count), right,
                middle(message.to, message.chunk, message.count), stroke);
    }
  }

  void draw_column(size_t moment) {
    for (Rank rank = 0; rank < spec_.nranks; ++rank) {
      const auto index = static_cast<size_t>(rank);
      const std::vector<ChunkState>& chunks = moments_[moment].chunks[index];
      for (uint32_t c = 0; c < chunks.size(); ++c) {
        const std::string fill = chunks[c].is_final      ? std::string(kFinal)
                                 : chunks[c].inputs == 0 ? std::string(kNothing)
                                                         : sum_color(chunks[c].inputs, spec_.nranks);
        svg_.box(column(moment), bands_[index] + cell_height_ * c, kCellWidth, cell_height_, fill, {"#ffffff", 0.6}, 1);
      }
      // What changed at this moment has a frame.
      for (uint32_t c = 0; moment > 0 && c < chunks.size(); ++c) {
        const ChunkState& before = moments_[moment - 1].chunks[index][c];
        if (before.inputs == chunks[c].inputs && before.is_final == chunks[c].is_final) continue;
        svg_.box(column(moment), bands_[index] + cell_height_ * c, kCellWidth, cell_height_, "none", {kInk, 1}, 1);
      }
    }
  }

  void draw_labels(const std::string& title) {
    svg_.text(kMargin, 36, title, 20, kInk, "start", true);
    const size_t chunks = moments_[0].chunks[0].size();
    svg_.text(kMargin, 58,
              counted(chunks, "chunk") + " over " + counted(moments_.size() - 1, "moment") +
                  ": at each, every rank takes the next step that has what it needs",
              13, kFaint);
    for (size_t moment = 0; moment < moments_.size(); ++moment) {
      svg_.text(column(moment) + kCellWidth / 2, kTop - 14, moment == 0 ? "start" : std::to_string(moment), 11, kFaint,
                "middle");
    }
    for (Rank rank = 0; rank < spec_.nranks; ++rank) {
      svg_.text(kMargin, bands_[static_cast<size_t>(rank)] + band_height_ / 2 + 4, "rank " + std::to_string(rank), 12, kInk);
    }
  }

  void draw_legend() {
    const double y = bottom_ + 24;
    double x = kMargin;
    const auto swatch = [&](const std::string& fill, const std::string& text, double width) {
      svg_.box(x, y - 10, 14, 14, fill, {kEdge}, 2);
      svg_.text(x + 20, y + 1, text, 12, kInk);
      x += width;
    };
    swatch(std::string(kNothing), "nothing", 84);
    swatch(sum_color(1, spec_.nranks), "one input", 94);
    if (reduces(spec_.collective)) swatch(sum_color(static_cast<uint32_t>(spec_.nranks), spec_.nranks), "all inputs", 94);
    swatch(std::string(kFinal), "result", 84);
    const auto key = [&](Payload payload, const char* text, double width) {
      svg_.line(x, y - 3, x + 18, y - 3, {message_color(payload), 2.5});
      svg_.text(x + 24, y + 1, text, 12, kInk);
      x += width;
    };
    if (reduces(spec_.collective)) key(Payload::kRaw, "raw input", 94);
    if (reduces(spec_.collective)) key(Payload::kPartial, "partial sum", 106);
    key(Payload::kFinal, "result", 84);
  }

  const CollectiveSpec& spec_;
  const std::vector<Moment> moments_;
  double cell_height_ = 0;
  double band_height_ = 0;
  double width_ = 0;
  double bottom_ = 0;
  std::vector<double> bands_;  // by rank: its top
  Svg svg_;
};

}  // namespace

Result<std::string> draw_schedule(const CollectiveSpec& spec, std::span<const Schedule> schedules, const std::string& title) {
  ASSIGN_OR_RETURN(std::vector<Moment> moments, moments_of(spec, schedules));
  return Drawing(spec, std::move(moments)).draw(title);
}

}  // namespace gimbal
