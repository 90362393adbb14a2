#include "tools/gimbal_plan/scaling_plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <vector>

#include "tools/gimbal_plan/plot_axis.h"
#include "tools/gimbal_topo/svg.h"

namespace gimbal {
namespace {

constexpr std::string_view kInk = "#1f2933";
constexpr std::string_view kFaint = "#7b8794";
constexpr std::string_view kGrid = "#e4e7eb";
constexpr std::string_view kColors[] = {"#1c7ed6", "#e8590c", "#2f9e44", "#9b51e0", "#c2255c", "#0b7285", "#f08c00", "#495057"};

constexpr double kMargin = 28;
constexpr double kTop = 104;
constexpr double kPanelWidth = 420;
constexpr double kPanelHeight = 300;
constexpr double kPanelPitch = 510;
constexpr double kAxisWidth = 62;
constexpr double kKeyPitch = 20;
constexpr size_t kKeyColumns = 3;

class Plot {
 public:
  explicit Plot(std::span<const Figure> figures) : figures_(figures) {
    for (const Figure& figure : figures) {
      if (std::find(algorithms_.begin(), algorithms_.end(), figure.algorithm) == algorithms_.end()) {
        algorithms_.push_back(figure.algorithm);
      }
      most_nodes_ = std::max(most_nodes_, figure.nodes);
    }
  }

  std::string draw(const std::string& title, const std::string& subtitle) {
    svg_.text(kMargin, 36, title, 20, kInk, "start", true);
    svg_.text(kMargin, 58, subtitle, 13, kFaint);
    draw_panel(kMargin, "bus bandwidth, GB/s", [](const Figure& figure) { return figure.bus_gbps; });
    draw_panel(kMargin + kPanelPitch, "time, us", [](const Figure& figure) { return figure.time_us; });
    const double key_top = kTop + kPanelHeight + 62;
    for (size_t i = 0; i < algorithms_.size(); ++i) draw_key(i, key_top);
    const size_t rows = (algorithms_.size() + kKeyColumns - 1) / kKeyColumns;
    return svg_.finish(2 * kMargin + kPanelPitch + kAxisWidth + kPanelWidth,
                       key_top + static_cast<double>(rows) * kKeyPitch + 16);
  }

 private:
  void draw_panel(double left, const std::string& name, const std::function<double(const Figure&)>& value) {
    double least = 0;
    double most = 0;
    for (const Figure& figure : figures_) {
      if (value(figure) <= 0) continue;
      least = least == 0 ? value(figure) : std::min(least, value(figure));
      most = std::max(most, value(figure));
    }
    const LogAxis x({1, static_cast<double>(std::max<Rank>(2, most_nodes_))}, left + kAxisWidth,
                    left + kAxisWidth + kPanelWidth, 2);
    const LogAxis y(rounded_out(least, most), kTop + kPanelHeight, kTop, 10);
    svg_.text(left, kTop - 16, name, 13, kInk, "start", true);
    for (const double tick : y.ticks()) {
      svg_.line(x.low(), y.at(tick), x.high(), y.at(tick), {kGrid});
      svg_.text(x.low() - 8, y.at(tick) + 4, short_number(tick), 11, kFaint, "end");
    }
    for (const double tick : x.ticks()) {
      svg_.line(x.at(tick), y.low(), x.at(tick), y.low() + 4, {kFaint});
      svg_.text(x.at(tick), y.low() + 18, short_number(tick), 11, kFaint, "middle");
    }
    svg_.text((x.low() + x.high()) / 2, y.low() + 36, "machines", 12, kFaint, "middle");
    for (size_t i = 0; i < algorithms_.size(); ++i) draw_line(i, x, y, value);
  }

  void draw_line(size_t index, const LogAxis& x, const LogAxis& y, const std::function<double(const Figure&)>& value) {
    const Figure* before = nullptr;
    for (const Figure& figure : figures_) {
      if (figure.algorithm != algorithms_[index] || value(figure) <= 0) continue;
      const bool is_bound = figure.method == Method::kBound;
      const double right = x.at(figure.nodes);
      const double height = y.at(value(figure));
      if (before != nullptr) svg_.line(x.at(before->nodes), y.at(value(*before)), right, height, {color(index), 2.2, is_bound});
      svg_.circle(right, height, 3, color(index));
      before = &figure;
    }
  }

  void draw_key(size_t index, double top) {
    const size_t row = index / kKeyColumns;
    const double x = kMargin + static_cast<double>(index % kKeyColumns) * 320;
    const double y = top + static_cast<double>(row) * kKeyPitch;
    svg_.line(x, y - 4, x + 22, y - 4, {color(index), 2.6});
    const bool has_bound = std::any_of(figures_.begin(), figures_.end(), [&](const Figure& figure) {
      return figure.algorithm == algorithms_[index] && figure.method == Method::kBound;
    });
    svg_.text(x + 30, y, std::string(algorithms_[index]->name) + (has_bound ? " (dashed: at best)" : ""), 12, kInk);
  }

  static std::string_view color(size_t index) { return kColors[index % std::size(kColors)]; }

  std::span<const Figure> figures_;
  std::vector<const Algorithm*> algorithms_;
  Rank most_nodes_ = 1;
  Svg svg_;
};

}  // namespace

std::string draw_scaling(std::span<const Figure> figures, const std::string& title, const std::string& subtitle) {
  return Plot(figures).draw(title, subtitle);
}

}  // namespace gimbal
