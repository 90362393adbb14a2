// What gimbal-bench has printed, read as the scripts of nccl-tests' users read it: rows begin with blanks and a digit, and
// fields are counted.
#pragma once

#include <cctype>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

namespace gimbal::test {

struct BenchHalf {
  double time_us;
  double algbw_gbps;
  double busbw_gbps;
  std::string wrong;
};

struct BenchRow {
  size_t bytes;
  size_t count;
  std::string dtype;
  std::string op;
  std::string root;
  BenchHalf out_of_place;
  BenchHalf in_place;
};

inline BenchHalf read_half(const std::vector<std::string>& fields, size_t first) {
  const auto number = [&](size_t at) { return std::strtod(fields[at].c_str(), nullptr); };
  return {number(first), number(first + 1), number(first + 2), fields[first + 3]};
}

inline std::vector<BenchRow> bench_rows(const std::string& output) {
  std::vector<BenchRow> rows;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find_first_not_of(' ');
    if (first == 0 || first == std::string::npos || std::isdigit(static_cast<unsigned char>(line[first])) == 0) continue;
    std::istringstream words(line);
    std::vector<std::string> fields;
    for (std::string field; words >> field;) fields.push_back(field);
    if (fields.size() < 13) continue;
    rows.push_back({std::stoul(fields[0]), std::stoul(fields[1]), fields[2], fields[3], fields[4], read_half(fields, 5),
                    read_half(fields, 9)});
  }
  return rows;
}

}  // namespace gimbal::test
