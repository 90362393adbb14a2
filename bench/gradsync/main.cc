// Communication time of a step whose gradients travel as they are, in smaller types, or through a codec, interleaved in one
// run.
//
//   tests/support/hosts --hosts 2 --rate 1gbit run -- build/bench/gradsync/bench_gradsync
//     --rank {host} --size {hosts} --rendezvous tcp://{address0}:4021
//
// There is no backward pass: all gradients are ready at once, so that a step is all communication. A step's time is the slowest
// rank's. Each round makes one step of each form; ratios are of times of one round.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "gimbal/gradsync.h"

namespace {

constexpr size_t kRows = 512;
constexpr size_t kColumns = 512;

struct Options {
  int rank = -1;
  int size = -1;
  std::string rendezvous;
  size_t layers = 50;
  int rounds = 7;
};

void require(gimbal_status_t status) {
  if (status != GIMBAL_OK) throw std::runtime_error(gimbal_last_error());
}

// One form of gradients, with a synchronizer and communicator of its own.
class Form {
 public:
  Form(gimbal_comm_t world, std::string name, gimbal_gradsync_options_t options, size_t layers)
      : name_(std::move(name)), layers_(layers) {
    int32_t rank = 0;
    require(gimbal_comm_rank(world, &rank));
    require(gimbal_comm_split(world, 0, rank, &comm_));
    std::vector<std::string> names;
    std::vector<gimbal_gradsync_parameter_t> parameters;
    names.reserve(layers);
    parameters.reserve(layers);
    for (size_t i = 0; i < layers; ++i) names.push_back("layer " + std::to_string(i));
    for (const std::string& each : names) parameters.push_back({each.c_str(), kRows * kColumns, GIMBAL_FLOAT32});
    const std::vector<size_t> rows(layers, kRows);
    options.rows = rows.data();
    options.bucket_bytes = size_t{8} << 20;
    require(gimbal_gradsync_create(comm_, parameters.data(), layers, &options, &sync_));
  }
  ~Form() {
    gimbal_gradsync_destroy(sync_);
    gimbal_comm_destroy(comm_);
  }
  Form(const Form&) = delete;
  Form& operator=(const Form&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::vector<double>& times_ms() { return times_ms_; }
  [[nodiscard]] double sent_mb() const {
    gimbal_gradsync_stats_t stats = GIMBAL_GRADSYNC_STATS_INIT;
    require(gimbal_gradsync_stats(sync_, &stats));
    return static_cast<double>(stats.sent_bytes) / 1e6;
  }

  void make_step(uint32_t seed) {
    for (size_t i = 0; i < layers_; ++i) fill(i, seed);
    require(gimbal_barrier(comm_, nullptr));
    const int64_t begin_ns = gimbal::monotonic_ns();
    for (size_t i = layers_; i-- > 0;) require(gimbal_gradsync_ready(sync_, i, nullptr));
    require(gimbal_gradsync_step_end(sync_, 1));
    require(gimbal_gradsync_wait(sync_, GIMBAL_GRADSYNC_ALL));
    const double own_ms = static_cast<double>(gimbal::monotonic_ns() - begin_ns) / 1e6;
    double slowest_ms = 0;
    require(gimbal_all_reduce(&own_ms, &slowest_ms, 1, GIMBAL_FLOAT64, GIMBAL_MAX, comm_, nullptr));
    times_ms_.push_back(slowest_ms);
  }

 private:
  // Numbers without a pattern that a type would find exact: a linear congruential generator's.
  void fill(size_t layer, uint32_t seed) {
    void* memory = nullptr;
    require(gimbal_gradsync_gradient(sync_, layer, &memory));
    auto* const values = static_cast<float*>(memory);
    uint32_t state = seed + static_cast<uint32_t>(layer);
    for (size_t i = 0; i < kRows * kColumns; ++i) {
      state = state * 1664525 + 1013904223;
      values[i] = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31F;
    }
  }

  std::string name_;
  size_t layers_;
  gimbal_comm_t comm_ = nullptr;
  gimbal_gradsync_t sync_ = nullptr;
  std::vector<double> times_ms_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void report(const Options& options, std::vector<std::unique_ptr<Form>>& forms) {
  std::printf("%d ranks, %.1f MB of float32 gradients, %d rounds; times of the slowest rank\n", options.size,
              static_cast<double>(options.layers * kRows * kColumns * sizeof(float)) / 1e6, options.rounds);
  std::printf("%-14s %10s %10s %24s\n", "form", "sent MB", "median ms", "of as_is, median (range)");
  for (const auto& form : forms) {
    std::vector<double> ratios;
    for (size_t round = 0; round < form->times_ms().size(); ++round) {
      ratios.push_back(form->times_ms()[round] / forms[0]->times_ms()[round]);
    }
    const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
    std::printf("%-14s %10.2f %10.1f %10.3f (%.3f to %.3f)\n", form->name().c_str(), form->sent_mb(), median(form->times_ms()),
                median(ratios), *least, *most);
  }
}

void measure(const Options& options) {
  gimbal_config_t config = GIMBAL_CONFIG_INIT;
  config.rank = options.rank;
  config.size = options.size;
  if (!options.rendezvous.empty()) config.rendezvous = options.rendezvous.c_str();
  gimbal_comm_t world = nullptr;
  require(gimbal_comm_create(&config, &world));
  std::vector<std::unique_ptr<Form>> forms;
  const std::pair<const char*, gimbal_gradsync_wire_t> wires[] = {{"as_is", GIMBAL_GRADSYNC_WIRE_AS_IS},
                                                                  {"bfloat16", GIMBAL_GRADSYNC_WIRE_BFLOAT16},
                                                                  {"float16", GIMBAL_GRADSYNC_WIRE_FLOAT16},
                                                                  {"int8", GIMBAL_GRADSYNC_WIRE_INT8},
                                                                  {"float8", GIMBAL_GRADSYNC_WIRE_FLOAT8}};
  for (const auto& [name, wire] : wires) {
    gimbal_gradsync_options_t made = GIMBAL_GRADSYNC_OPTIONS_INIT;
    made.wire = wire;
    forms.push_back(std::make_unique<Form>(world, name, made, options.layers));
  }
  gimbal_codec_t codecs[2] = {};
  require(gimbal_codec_power_sgd(4, &codecs[0]));
  require(gimbal_codec_top_k(0.01, &codecs[1]));
  const char* const codec_names[] = {"power_sgd 4", "top_k 0.01"};
  for (size_t i = 0; i < 2; ++i) {
    gimbal_gradsync_options_t made = GIMBAL_GRADSYNC_OPTIONS_INIT;
    made.codec = &codecs[i];
    forms.push_back(std::make_unique<Form>(world, codec_names[i], made, options.layers));
  }
  for (int round = -1; round < options.rounds; ++round) {
    for (const auto& form : forms) {
      form->make_step(static_cast<uint32_t>(1000 * round + options.rank));
      if (round < 0) form->times_ms().clear();  // new pages and connections
    }
  }
  if (options.rank == 0) report(options, forms);
  forms.clear();
  require(gimbal_comm_destroy(world));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Communication time of a step by the form in which gradients travel");
  Options options;
  app.add_option("--rank", options.rank, "of this process")->required();
  app.add_option("--size", options.size, "how many")->required();
  app.add_option("--rendezvous", options.rendezvous, "where ranks meet, as of gimbal_config_t");
  app.add_option("--layers", options.layers, "of 512 x 512 floats")->check(CLI::PositiveNumber);
  app.add_option("--rounds", options.rounds, "steps of each form")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    measure(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_gradsync: %s\n", error.what());
    return 1;
  }
  return 0;
}
