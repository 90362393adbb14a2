#include <algorithm>
#include <set>
#include <vector>

#include "bench/predict/report.h"
#include "tools/gimbal_plan/plot_axis.h"
#include "tools/gimbal_topo/svg.h"
#include "tools/gimbal_topo/words.h"

namespace gimbal::predict {
namespace {

constexpr std::string_view kInk = "#1f2933";
constexpr std::string_view kFaint = "#7b8794";
constexpr std::string_view kGrid = "#e4e7eb";
constexpr std::string_view kAlarm = "#d64545";
constexpr std::string_view kColors[] = {"#1c7ed6", "#e8590c", "#2f9e44", "#9b51e0", "#c2255c", "#0b7285"};

constexpr double kMargin = 28;
constexpr double kTop = 104;
constexpr double kAxisWidth = 56;
constexpr double kPanelWidth = 270;
constexpr double kPanelHeight = 240;
constexpr double kPanelPitch = kAxisWidth + kPanelWidth + 24;

class Plot {
 public:
  explicit Plot(std::span<const Comparison> comparisons) : comparisons_(comparisons) {
    for (const Comparison& comparison : comparisons) {
      ranks_.insert(comparison.ranks);
      if (std::find(algorithms_.begin(), algorithms_.end(), comparison.algorithm) == algorithms_.end()) {
        algorithms_.push_back(comparison.algorithm);
      }
    }
  }

  std::string draw(const Machine& machine) {
    svg_.text(kMargin, 36, "Predicted and measured all-reduce", 20, kInk, "start", true);
    svg_.text(kMargin, 58, machine.name + "; lines are predicted, dots measured: hollow ones were learned, red ones are missed",
              13, kFaint);
    double left = kMargin;
    for (const Rank ranks : ranks_) {
      draw_panel(left, ranks);
      left += kPanelPitch;
    }
    const double y = kTop + kPanelHeight + 56;
    for (size_t i = 0; i < algorithms_.size(); ++i) {
      const double x = kMargin + 180 * static_cast<double>(i);
      svg_.line(x, y - 4, x + 22, y - 4, {kColors[i % std::size(kColors)], 2.4});
      svg_.text(x + 30, y, algorithms_[i], 12, kInk);
    }
    return svg_.finish(std::max(left, 620.0) + kMargin, y + 24);
  }

 private:
  void draw_panel(double left, Rank ranks) {
    std::vector<double> times;
    std::vector<double> bytes;
    for (const Comparison& comparison : comparisons_) {
      if (comparison.ranks != ranks) continue;
      times.insert(times.end(), {comparison.measured_us, comparison.predicted_us});
      bytes.push_back(static_cast<double>(comparison.bytes));
    }
    const auto [least_us, most_us] = std::minmax_element(times.begin(), times.end());
    const auto [least_bytes, most_bytes] = std::minmax_element(bytes.begin(), bytes.end());
    const LogAxis x({*least_bytes, std::max(*most_bytes, 2 * *least_bytes)}, left + kAxisWidth, left + kAxisWidth + kPanelWidth,
                    4);
    const LogAxis y(rounded_out(*least_us, *most_us), kTop + kPanelHeight, kTop, 10);
    svg_.text(left, kTop - 16, counted(static_cast<size_t>(ranks), "rank") + ", us", 13, kInk, "start", true);
    for (const double tick : y.ticks()) {
      svg_.line(x.low(), y.at(tick), x.high(), y.at(tick), {kGrid});
      svg_.text(x.low() - 8, y.at(tick) + 4, short_number(tick), 11, kFaint, "end");
    }
    for (const double tick : x.ticks()) {
      svg_.text(x.at(tick), y.low() + 18, binary_size(static_cast<uint64_t>(tick)), 10, kFaint, "middle");
    }
    for (size_t i = 0; i < algorithms_.size(); ++i) draw_series(i, ranks, x, y);
  }

  void draw_series(size_t index, Rank ranks, const LogAxis& x, const LogAxis& y) {
    const std::string_view color = kColors[index % std::size(kColors)];
    const Comparison* before = nullptr;
    for (const Comparison& comparison : comparisons_) {
      if (comparison.ranks != ranks || comparison.algorithm != algorithms_[index]) continue;
      const double at = x.at(static_cast<double>(comparison.bytes));
      if (before != nullptr) {
        svg_.line(x.at(static_cast<double>(before->bytes)), y.at(before->predicted_us), at, y.at(comparison.predicted_us),
                  {color, 1.8});
      }
      const bool is_missed = !comparison.learned && !comparison.is_in_goal();
      svg_.circle(at, y.at(comparison.measured_us), 3.6, is_missed ? kAlarm : color);
      if (comparison.learned) svg_.circle(at, y.at(comparison.measured_us), 2, "#ffffff");
      before = &comparison;
    }
  }

  std::span<const Comparison> comparisons_;
  std::set<Rank> ranks_;
  std::vector<std::string> algorithms_;
  Svg svg_;
};

}  // namespace

std::string draw_report(const Machine& machine, std::span<const Comparison> comparisons) {
  return Plot(comparisons).draw(machine);
}

}  // namespace gimbal::predict
