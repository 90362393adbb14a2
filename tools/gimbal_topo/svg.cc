#include "tools/gimbal_topo/svg.h"

#include <cstdio>

namespace gimbal {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", value);
  return text;
}

std::string attribute(std::string_view name, double value) { return " " + std::string(name) + "=\"" + number(value) + "\""; }

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

}  // namespace

void Svg::stroke(const Stroke& stroke) {
  body_ += " stroke=\"" + std::string(stroke.color) + "\"" + attribute("stroke-width", stroke.width);
  if (stroke.is_dashed) body_ += " stroke-dasharray=\"5 4\"";
  body_ += "/>\n";
}

void Svg::box(double x, double y, double width, double height, std::string_view fill, const Stroke& edge, double radius) {
  body_ += "<rect" + attribute("x", x) + attribute("y", y) + attribute("width", width) + attribute("height", height) +
           attribute("rx", radius) + " fill=\"" + std::string(fill) + "\"";
  stroke(edge);
}

void Svg::circle(double x, double y, double radius, std::string_view fill) {
  body_ +=
      "<circle" + attribute("cx", x) + attribute("cy", y) + attribute("r", radius) + " fill=\"" + std::string(fill) + "\"/>\n";
}

void Svg::line(double x1, double y1, double x2, double y2, const Stroke& edge) {
  body_ += "<line" + attribute("x1", x1) + attribute("y1", y1) + attribute("x2", x2) + attribute("y2", y2) +
           " stroke-linecap=\"round\"";
  stroke(edge);
}

void Svg::fall(double x1, double y1, double x2, double y2, const Stroke& edge) {
  const std::string middle = number((y1 + y2) / 2);
  body_ += "<path d=\"M" + number(x1) + " " + number(y1) + " C" + number(x1) + " " + middle + " " + number(x2) + " " + middle +
           " " + number(x2) + " " + number(y2) + "\" fill=\"none\" stroke-linecap=\"round\"";
  stroke(edge);
}

void Svg::arc(double x1, double x2, double y, double depth, const Stroke& edge) {
  body_ += "<path d=\"M" + number(x1) + " " + number(y) + " C" + number(x1) + " " + number(y + depth) + " " + number(x2) + " " +
           number(y + depth) + " " + number(x2) + " " + number(y) + "\" fill=\"none\" stroke-linecap=\"round\"";
  stroke(edge);
}

void Svg::text(double x, double y, std::string_view text, double size, std::string_view color, std::string_view anchor,
               bool is_bold) {
  body_ += "<text" + attribute("x", x) + attribute("y", y) + attribute("font-size", size) + " fill=\"" + std::string(color) +
           "\" text-anchor=\"" + std::string(anchor) + "\"" + (is_bold ? " font-weight=\"600\"" : "") + ">" + escaped(text) +
           "</text>\n";
}

std::string Svg::finish(double width, double height) const {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\"" + attribute("width", width) + attribute("height", height) +
         " viewBox=\"0 0 " + number(width) + " " + number(height) +
         "\" font-family=\"Inter, Helvetica, Arial, DejaVu Sans, sans-serif\">\n<rect width=\"100%\" height=\"100%\" "
         "fill=\"#fbfbfd\"/>\n" +
         body_ + "</svg>\n";
}

}  // namespace gimbal
