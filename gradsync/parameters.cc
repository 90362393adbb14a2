#include "gradsync/parameters.h"

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
  if (raw.count == 0) return wrong(index, named + "has no elements");
  if (raw.count > (size_t{1} << 46)) return wrong(index, named + "has more than 2^46 elements");
  return Parameter{raw.name, raw.count, static_cast<DType>(dtype)};
}

Status wrong_flag(const char* name, int32_t value) {
  return {Code::kInvalidArgument, std::string("options.") + name + " is " + std::to_string(value) + "; allowed: 0 and 1"};
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
  return taken;
}

Result<Options> take_options(const gimbal_gradsync_options_t* options) {
  Options taken;
  if (options == nullptr) return taken;
  if (options->struct_bytes != sizeof(gimbal_gradsync_options_t)) {
    return Status(Code::kInvalidArgument, "options.struct_bytes is " + std::to_string(options->struct_bytes) +
                                              "; set options by GIMBAL_GRADSYNC_OPTIONS_INIT");
  }
  const int reduction = options->reduction;
  const int missing = options->missing;
  if (reduction < 0 || reduction > GIMBAL_GRADSYNC_WEIGHTED_MEAN) {
    return Status(Code::kInvalidArgument, "options.reduction is " + std::to_string(reduction) + "; allowed: 0 to 2");
  }
  if (missing < 0 || missing > GIMBAL_GRADSYNC_MISSING_ZERO) {
    return Status(Code::kInvalidArgument, "options.missing is " + std::to_string(missing) + "; allowed: 0 and 1");
  }
  if ((options->reorder | 1) != 1) return wrong_flag("reorder", options->reorder);
  if ((options->uneven | 1) != 1) return wrong_flag("uneven", options->uneven);
  taken.reduction = options->reduction;
  taken.zero_missing = options->missing == GIMBAL_GRADSYNC_MISSING_ZERO;
  taken.bucket_bytes = options->bucket_bytes;
  if (options->first_bucket_bytes != 0) taken.first_bucket_bytes = options->first_bucket_bytes;
  taken.reorder = options->reorder == 1;
  taken.uneven = options->uneven == 1;
  return taken;
}

std::string manifest_of(std::span<const Parameter> parameters, const Options& options) {
  std::ostringstream text;
  text << "options: reduction " << options.reduction << ", missing " << options.zero_missing << ", bucket_bytes "
       << options.bucket_bytes << ", first_bucket_bytes " << options.first_bucket_bytes << ", reorder " << options.reorder
       << ", uneven " << options.uneven << '\n';
  for (size_t i = 0; i < parameters.size(); ++i) {
    text << "parameter " << i << ": \"" << parameters[i].name << "\", " << parameters[i].count << " of type "
         << static_cast<int>(parameters[i].dtype) << '\n';
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
