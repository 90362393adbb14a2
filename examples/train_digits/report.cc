#include "report.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace digits {
namespace {

std::string hexadecimal(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

double examples_per_second(const Report& report) {
  return static_cast<double>(report.train_examples * report.epoch_losses.size()) / report.seconds;
}

double per_step_ms(const Report& report, double seconds) { return 1e3 * seconds / static_cast<double>(report.steps); }

}  // namespace

bool Report::parameters_equal() const {
  return std::all_of(checksums.begin(), checksums.end(), [&](uint64_t checksum) { return checksum == checksums.front(); });
}

bool Report::gradient_agrees() const { return !gradient_difference || *gradient_difference <= gradient_tolerance; }

std::string summary(const Report& report) {
  char text[640];
  std::snprintf(text, sizeof text,
                "ranks %d, parameters %zu, steps %zu\n"
                "final loss %.9g, accuracy %.4f on %zu held-out digits\n"
                "%.0f examples/s, %.3f ms per step, %.3f ms (%.1f %%) of it in communication\n"
                "parameter checksum %s, %s\n",
                report.ranks, report.parameter_count, report.steps, report.final_loss, report.accuracy,
                report.held_out_examples, examples_per_second(report), per_step_ms(report, report.seconds),
                per_step_ms(report, report.exposed_seconds), 100 * report.exposed_seconds / report.seconds,
                hexadecimal(report.checksums.front()).c_str(),
                report.parameters_equal() ? "equal on all ranks" : "DIFFERENT ON SOME RANK");
  std::string result = text;
  if (report.gradient_difference) {
    std::snprintf(text, sizeof text, "one-step gradient against one rank's: %.2e of its norm, %s (allowed %.0e)\n",
                  *report.gradient_difference, report.gradient_agrees() ? "agrees" : "TOO FAR", report.gradient_tolerance);
    result += text;
  }
  return result;
}

void write_json(const Options& options, const Report& report) {
  nlohmann::json json = {
      {"ranks", report.ranks},
      {"dtype", options.dtype},
      {"batch", options.batch},
      {"hidden", options.hidden},
      {"epochs", options.epochs},
      {"seed", options.seed},
      {"parameters", report.parameter_count},
      {"train_examples", report.train_examples},
      {"held_out_examples", report.held_out_examples},
      {"epoch_losses", report.epoch_losses},
      {"final_loss", report.final_loss},
      {"accuracy", report.accuracy},
      {"examples_per_second", examples_per_second(report)},
      {"step_ms", per_step_ms(report, report.seconds)},
      {"communication_ms", per_step_ms(report, report.exposed_seconds)},
      {"communication_share", report.exposed_seconds / report.seconds},
      {"checksum", hexadecimal(report.checksums.front())},
      {"parameters_equal", report.parameters_equal()},
  };
  if (report.gradient_difference) json["gradient_difference"] = *report.gradient_difference;
  std::ofstream file(options.json);
  file << json.dump(2) << '\n';
  if (!file.flush()) throw std::runtime_error("JSON file " + options.json + " cannot be written");
}

}  // namespace digits
