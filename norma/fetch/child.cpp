#include "norma/fetch/child.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "norma/base/clock.h"
#include "norma/base/error.h"
#include "norma/base/stop.h"
#include "norma/base/text.h"

namespace norma::fetch {

namespace {

constexpr std::size_t kKeptBytes = 4096;  // of what a child says
constexpr int kLookEveryMs = 50;
constexpr double kGraceS = 1.0;  // between the request to end and the end

/// What the child says, through a pipe.
class Ear {
 public:
  Ear() {
    // Only our end: a child that talks faster than we listen has to wait.
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0 || ::fcntl(ends_[0], F_SETFL, O_NONBLOCK) != 0) {
      throw Error(say("cannot make a pipe: ", std::strerror(errno), "."));
    }
  }
  ~Ear() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  Ear(const Ear&) = delete;
  Ear& operator=(const Ear&) = delete;

  int mouth() const { return ends_[1]; }
  /// Waits at most so long for words and keeps the last of them.
  void listen(int wait_ms = kLookEveryMs) {
    pollfd waiting{.fd = ends_[0], .events = POLLIN, .revents = 0};
    ::poll(&waiting, 1, wait_ms);
    std::array<char, 4096> piece{};
    while (true) {
      const ssize_t got = ::read(ends_[0], piece.data(), piece.size());
      if (got <= 0) return;
      heard_.append(piece.data(), static_cast<std::size_t>(got));
      if (heard_.size() > kKeptBytes) heard_.erase(0, heard_.size() - kKeptBytes);
    }
  }
  const std::string& heard() const { return heard_; }

 private:
  std::array<int, 2> ends_{};
  std::string heard_;
};

/// Starts the program; an error number of the system, or 0.
int start(const ChildCommand& command, const Ear& ear, pid_t& child) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ear.mouth(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ear.mouth(), STDERR_FILENO);
  posix_spawn_file_actions_addchdir_np(&actions, command.folder.c_str());

  // Signals that we block or ignore must not be blocked or ignored there.
  posix_spawnattr_t how;
  posix_spawnattr_init(&how);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&how, &none);
  sigset_t usual;
  sigemptyset(&usual);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGXFSZ}) sigaddset(&usual, signal);
  posix_spawnattr_setsigdefault(&how, &usual);
  posix_spawnattr_setpgroup(&how, 0);
  posix_spawnattr_setflags(&how,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);

  std::vector<std::string> words = {command.program};
  words.insert(words.end(), command.arguments.begin(), command.arguments.end());
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const int error =
      ::posix_spawnp(&child, command.program.c_str(), &actions, &how, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&how);
  return error;
}

/// Whether it has ended; then `status` says how.
bool has_ended(pid_t child, int& status) {
  pid_t got = 0;
  do {
    got = ::waitpid(child, &status, WNOHANG);
  } while (got < 0 && errno == EINTR);
  return got != 0;
}

void end_group(pid_t child, Ear& ear) {
  int status = 0;
  ::kill(-child, SIGTERM);
  const Stopwatch asked;
  bool ended = false;
  while (!ended && asked.seconds() < kGraceS) {
    ear.listen();
    ended = has_ended(child, status);
  }
  ::kill(-child, SIGKILL);  // also those of the group that outlived their parent
  while (!ended) {
    ear.listen();
    ended = has_ended(child, status);
  }
}

}  // namespace

ChildEnd run_child(const ChildCommand& command) {
  Ear ear;
  pid_t child = 0;
  const int error = start(command, ear, child);
  if (error == ENOENT) return {.kind = ChildEnd::Kind::not_found};
  if (error != 0) {
    throw Error(say("cannot start ", command.program, ": ", std::strerror(error), "."));
  }
  const Stopwatch watch;
  int status = 0;
  while (!has_ended(child, status)) {
    const bool stopped = stop_signal() != 0;
    if (stopped || watch.seconds() > command.deadline_s) {
      end_group(child, ear);
      return {.kind = stopped ? ChildEnd::Kind::stopped : ChildEnd::Kind::too_late,
              .said = ear.heard()};
    }
    ear.listen();
  }
  ear.listen(0);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {.kind = ChildEnd::Kind::exited, .code = code, .said = ear.heard()};
}

}  // namespace norma::fetch
