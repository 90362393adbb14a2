// Data-parallel training of a small network on handwritten digits, through Gimbal's public C API.
//
//   gimbal-run -n 2 train_digits            two ranks on this machine
//   train_digits                            one rank alone
//
// Exit status 1: an error of Gimbal or of a file; parameters that differ between ranks; a gradient that fails --check-gradient.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "communicator.h"
#include "dataset.h"
#include "report.h"
#include "trainer.h"

namespace {

using digits::Options;
using digits::Report;

void add_options(CLI::App& app, Options& options) {
  app.add_option("--epochs", options.epochs, "Passes over the training digits")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--batch", options.batch, "Digits per step, over all ranks")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--hidden", options.hidden, "Width of the two hidden layers")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Of the initial parameters and the order of the digits")->capture_default_str();
  app.add_option("--dtype", options.dtype, "float or double")->check(CLI::IsMember({"float", "double"}))->capture_default_str();
  app.add_option("--data", options.data, "The digits")->default_val(DIGITS_DEFAULT_PATH);
  app.add_option("--json", options.json, "Rank 0 writes its report here");
  app.add_flag("--check-gradient", options.check_gradient,
               "Compare one step's averaged gradient with the one that a rank alone computes of the whole batch");
}

template <typename T>
bool train(const Options& options) {
  const digits::Dataset dataset = digits::load_dataset(options.data);
  digits::Communicator communicator;
  const Report report = digits::Trainer<T>(communicator, dataset, options).run();
  if (communicator.rank() == 0) {
    std::fputs(digits::summary(report).c_str(), stdout);
    if (!options.json.empty()) digits::write_json(options, report);
  }
  return report.parameters_equal() && report.gradient_agrees();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains a small network on handwritten digits, data-parallel over the ranks of a Gimbal communicator.");
  Options options;
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // under a launcher stdout is a pipe; progress is to be seen as it happens
  try {
    return (options.dtype == "float" ? train<float>(options) : train<double>(options)) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_digits: %s\n", error.what());
    return 1;
  }
}
