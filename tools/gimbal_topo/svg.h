// A drawing under construction: shapes in the order they are painted, written as SVG.
#pragma once

#include <string>
#include <string_view>

namespace gimbal {

struct Stroke {
  std::string_view color;
  double width = 1;
  bool is_dashed = false;
};

class Svg {
 public:
  void box(double x, double y, double width, double height, std::string_view fill, const Stroke& stroke, double radius = 6);
  void circle(double x, double y, double radius, std::string_view fill);
  void line(double x1, double y1, double x2, double y2, const Stroke& stroke);
  // From end to end, bent so that it leaves and arrives vertically.
  void fall(double x1, double y1, double x2, double y2, const Stroke& stroke);
  // An arc of the given depth below (negative: above) the straight line.
  void arc(double x1, double x2, double y, double depth, const Stroke& stroke);
  // anchor: "start", "middle" or "end".
  void text(double x, double y, std::string_view text, double size, std::string_view color, std::string_view anchor = "start",
            bool is_bold = false);

  [[nodiscard]] std::string finish(double width, double height) const;

 private:
  void stroke(const Stroke& stroke);

  std::string body_;
};

}  // namespace gimbal
