// Standard input for rank 0. A file or pipe is simply inherited. A terminal cannot be: the ranks are in process groups of their
// own, and the kernel stops a background group that reads from its terminal. So the launcher reads it and passes it on.
#pragma once

#include <poll.h>

#include <string>

#include "base/file_descriptor.h"
#include "base/status.h"

namespace gimbal {

class TerminalInput {
 public:
  // Does nothing unless standard input is a terminal.
  Status open();

  // What rank 0 is to read from; -1: this process's standard input.
  [[nodiscard]] int rank_end() const { return rank_end_.get(); }
  void close_rank_end() { rank_end_.reset(); }

  // What to poll for (the descriptor is -1 when there is nothing to do), and what to do when it happens.
  [[nodiscard]] pollfd awaited() const;
  void pump();

 private:
  FileDescriptor rank_end_;
  FileDescriptor launcher_end_;
  std::string pending_;  // read from the terminal, not yet written to the rank
};

}  // namespace gimbal
