// A process of the real program, for tests that kill it, signal it and spoil its disk.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "tests/support/contents.h"
#include "tests/support/norma_program.h"

namespace norma::battery {

struct Ended {
  int code = -1;    // as a shell shows it: 128 + n for signal n
  std::string out;  // what it wrote, standard error included
};

class Child {
 public:
  /// Starts `program arguments...` with both outputs in a file of their own. `prepare` runs in the
  /// child before the program starts: limits, another user.
  Child(const std::string& program,
        const std::vector<std::string>& arguments,
        const std::function<void()>& prepare = {});
  /// The same for a function of this program; the process ends with it.
  explicit Child(const std::function<void()>& body);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void signal(int number) const;
  bool running();
  pid_t id() const { return pid_; }
  Ended wait();

 private:
  /// Forks; true in the child, whose outputs go to the file.
  bool in_child();

  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
  std::string out_;
};

/// Waits until it holds, at most so long; false when it never did.
bool wait_until(const std::function<bool()>& holds, double seconds);
using test::contents;
using test::norma_program;

}  // namespace norma::battery
