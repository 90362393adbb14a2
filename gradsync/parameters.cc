#include "gradsync/parameters.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <set>
#include <sstream>

namespace gimbal::gradsync {
namespace {

constexpr size_t kMostNameBytes = 1024;

Status wrong(size_t index, const std::string& what) {
  return {Code::kInvalidArgument, "parameter " + std::to_string(index) + " " + what};
}

Result<Parameter> take_parameter(const gimbal_gradsync_parameter_t& raw, size_t index) {
  if (raw.name == nullptr || *raw.name == '\0') return wrong(index, "has no name");
  if (strnlen(raw.name, kMostNameBytes + 1) > kMostNameBytes) {
    return wrong(index, "has a name of more than " + std::to_string(kMostNameBytes) + " bytes");
  }
  if (std::string_view(raw.name).find('\n') != std::string_view::npos) return wrong(index, "has a name with a line break");
  const std::string named = "(\"" + std::string(raw.name) + "\") ";
  const int dtype = raw.dtype;
  if (dtype < 0 || dtype >= kPublicDTypeCount || !is_floating(static_cast<DType>(dtype))) {
    return wrong(index, named + "has type " + std::to_string(dtype) + "; allowed are the floating types, 6 to 11");
  }
  if (raw.count > (size_t{1} << 46)) return wrong(index, named + "has more than 2^46 elements");
  return Parameter{raw.name, raw.count, static_cast<DType>(dtype), 1};
}

// of an option; allowed: 0 to most.
Status check_option(const char* name, int64_t value, int64_t most) {
  if (value >= 0 && value <= most) return {};
  return {Code::kInvalidArgument,
          std::string("options.") + name + " is " + std::to_string(value) + "; allowed: 0 to " + std::to_string(most)};
}

// A program may have been compiled when the struct was shorter: what it does not know keeps its initial value.
Result<gimbal_gradsync_options_t> whole_options(const gimbal_gradsync_options_t& given) {
  constexpr size_t kFirstBytes = offsetof(gimbal_gradsync_options_t, wire);
  gimbal_gradsync_options_t whole = GIMBAL_GRADSYNC_OPTIONS_INIT;
  if (given.struct_bytes < kFirstBytes || given.struct_bytes > sizeof whole) {
    return Status(Code::kInvalidArgument, "options.struct_bytes is " + std::to_string(given.struct_bytes) +
                                              "; set options by GIMBAL_GRADSYNC_OPTIONS_INIT");
  }
  std::memcpy(&whole, &given, given.struct_bytes);
  return whole;
}

Status check_codec(const gimbal_codec_t& codec, const gimbal_gradsync_options_t& options) {
  const auto wrong_codec = [](const std::string& what) { return Status(Code::kInvalidArgument, "options.codec" + what); };
  if (codec.struct_bytes != sizeof codec) {
    return wrong_codec("->struct_bytes is " + std::to_string(codec.struct_bytes) + "; allowed: sizeof(gimbal_codec_t), " +
                       std::to_string(sizeof codec));
  }
  if (std::memchr(codec.name, '\0', sizeof codec.name) == nullptr || codec.name[0] == '\0') {
    return wrong_codec("->name is empty or has no end");
  }
  constexpr int32_t kMostRounds = 8;
  if (codec.rounds < 1 || codec.rounds > kMostRounds) {
    return wrong_codec("->rounds is " + std::to_string(codec.rounds) + "; allowed: 1 to " + std::to_string(kMostRounds));
  }
  const int exchange = codec.exchange;
  if (exchange != GIMBAL_CODEC_SUM && exchange != GIMBAL_CODEC_GATHER) {
    return wrong_codec("->exchange is " + std::to_string(exchange) + "; allowed: 0 and 1");
  }
  if (codec.open == nullptr || codec.close == nullptr || codec.message_bytes == nullptr || codec.encode == nullptr ||
      codec.decode == nullptr) {
    return wrong_codec(" lacks a function: open, close, message_bytes, encode and decode are needed");
  }
  if (options.wire == GIMBAL_GRADSYNC_WIRE_AS_IS) return {};
  return wrong_codec(" is given with options.wire " + std::to_string(options.wire) + "; a codec needs 0");
}

Status take_rows(const size_t* rows, std::span<Parameter> parameters) {
  if (rows == nullptr) return {};
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (rows[i] == 0) continue;
    if (parameters[i].count % rows[i] != 0) {
      return wrong(i, "(\"" + parameters[i].name + "\") has " + std::to_string(parameters[i].count) +
                          " elements, which are not options.rows, " + std::to_string(rows[i]) + ", equal rows");
    }
    parameters[i].rows = rows[i];
  }
  return {};
}

}  // namespace

Result<std::vector<Parameter>> take_parameters(const gimbal_gradsync_parameter_t* parameters, size_t count) {
  if (count == 0) return Status(Code::kInvalidArgument, "there are no parameters");
  if (parameters == nullptr) return Status(Code::kInvalidArgument, "parameters is NULL");
  std::vector<Parameter> taken;
  std::set<std::string_view> names;
  taken.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(Parameter parameter, take_parameter(parameters[i], i));
    taken.push_back(std::move(parameter));
  }
  for (size_t i = 0; i < count; ++i) {
    if (!names.insert(taken[i].name).second) return wrong(i, "has the name \"" + taken[i].name + "\" of an earlier one");
  }
  if (std::ranges::all_of(taken, [](const Parameter& parameter) { return parameter.count == 0; })) {
    return Status(Code::kInvalidArgument, "no parameter has any elements");
  }
  return taken;
}

Result<Options> take_options(const gimbal_gradsync_options_t* options, std::span<Parameter> parameters) {
  Options taken;
  if (options == nullptr) return taken;
  ASSIGN_OR_RETURN(const gimbal_gradsync_options_t given, whole_options(*options));
  RETURN_IF_ERROR(check_option("reduction", given.reduction, GIMBAL_GRADSYNC_WEIGHTED_MEAN));
  RETURN_IF_ERROR(check_option("missing", given.missing, GIMBAL_GRADSYNC_MISSING_ZERO));
  RETURN_IF_ERROR(check_option("reorder", given.reorder, 1));
  RETURN_IF_ERROR(check_option("uneven", given.uneven, 1));
  RETURN_IF_ERROR(check_option("wire", given.wire, GIMBAL_GRADSYNC_WIRE_FLOAT8));
  RETURN_IF_ERROR(check_option("wire_between_nodes", given.wire_between_nodes, 1));
  if (given.codec != nullptr) {
    RETURN_IF_ERROR(check_codec(*given.codec, given));
    RETURN_IF_ERROR(take_rows(given.rows, parameters));
    taken.codec = *given.codec;
  }
  taken.reduction = given.reduction;
  taken.zero_missing = given.missing == GIMBAL_GRADSYNC_MISSING_ZERO;
  taken.bucket_bytes = given.bucket_bytes;
  if (given.first_bucket_bytes != 0) taken.first_bucket_bytes = given.first_bucket_bytes;
  taken.reorder = given.reorder == 1;
  taken.uneven = given.uneven == 1;
  taken.wire = given.wire;
  taken.trace_steps = given.trace_steps;
  taken.wire_between_nodes = given.wire_between_nodes == 1;
  return taken;
}

std::string manifest_of(std::span<const Parameter> parameters, const Options& options) {
  std::ostringstream text;
  text << "options: reduction " << options.reduction << ", missing " << options.zero_missing << ", bucket_bytes "
       << options.bucket_bytes << ", first_bucket_bytes " << options.first_bucket_bytes << ", reorder " << options.reorder
       << ", uneven " << options.uneven << ", wire " << options.wire << ", wire_between_nodes " << options.wire_between_nodes
       << ", codec " << (options.codec ? options.codec->name : "none") << '\n';
  for (size_t i = 0; i < parameters.size(); ++i) {
    text << "parameter " << i << ": \"" << parameters[i].name << "\", " << parameters[i].count << " of type "
         << static_cast<int>(parameters[i].dtype);
    if (options.codec) text << ", rows " << parameters[i].rows;
    text << '\n';
  }
  return text.str();
}

std::string first_difference(const std::string& mine, const std::string& of_rank_0) {
  if (mine == of_rank_0) return "";
  std::istringstream here(mine);
  std::istringstream there(of_rank_0);
  for (;;) {
    std::string ours;
    std::string theirs;
    const bool have_ours = static_cast<bool>(std::getline(here, ours));
    const bool have_theirs = static_cast<bool>(std::getline(there, theirs));
    if (!have_ours && !have_theirs) return "manifests differ";
    if (have_ours && have_theirs && ours == theirs) continue;
    return (have_ours ? ours : "no more parameters") + " here, but " + (have_theirs ? theirs : "no more parameters") +
           " on rank 0";
  }
}

}  // namespace gimbal::gradsync
