// One output stream of one rank: what comes from the rank's pipe goes on as whole lines, each behind the rank's prefix, so that
// lines of different ranks are never mixed.
#pragma once

#include <string>

#include "base/file_descriptor.h"

namespace gimbal {

class LinePrefixer {
 public:
  // from: non-blocking read end of the rank's pipe. to: borrowed, where the lines go.
  LinePrefixer(FileDescriptor from, int to, std::string prefix) : from_(std::move(from)), to_(to), prefix_(std::move(prefix)) {}

  // -1 once the stream has ended.
  [[nodiscard]] int fd() const { return from_.get(); }

  // Passes on the whole lines of one read. At the end of the stream also the rest, with a newline.
  void pump();

  // Passes on everything that the pipe holds now and closes it.
  void finish();

 private:
  void pass_on_lines();
  void pass_on_rest();

  FileDescriptor from_;
  int to_;
  std::string prefix_;
  std::string pending_;  // the beginning of a line whose end has not come
};

// The whole text, also to a descriptor that is non-blocking or interrupted. What cannot be written (its reader has gone) is
// lost.
void write_all(int fd, std::string_view text);

}  // namespace gimbal
