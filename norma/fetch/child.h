// Another program, run to its end or to ours.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace norma::fetch {

struct ChildCommand {
  std::string program;  // looked for on the PATH
  std::vector<std::string> arguments;
  std::string folder;       // where it runs
  double deadline_s = 0.0;  // then it is ended
};

struct ChildEnd {
  enum class Kind : std::uint8_t {
    exited,     // by itself: see `code`
    not_found,  // there is no such program
    too_late,   // ended at the deadline
    stopped,    // ended because a signal asked us to stop (norma/base/stop.h)
  };
  Kind kind = Kind::exited;
  int code = 0;        // of its exit; 128 + the signal that killed it
  std::string said{};  // the end of what it wrote to standard output and standard error
};

/// No shell is involved. The program and what it starts form a group of their own, so that they end
/// together; it reads an empty standard input.
ChildEnd run_child(const ChildCommand& command);

}  // namespace norma::fetch
