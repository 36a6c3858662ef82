#include "tests/battery/child.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace norma::battery {

namespace {

std::string fresh_name() {
  static std::atomic<int> count{0};
  const auto folder = std::filesystem::temp_directory_path();
  return (folder / ("norma-child-" + std::to_string(getpid()) + "-" + std::to_string(++count)))
      .string();
}

}  // namespace

Child::Child(const std::string& program,
             const std::vector<std::string>& arguments,
             const std::function<void()>& prepare)
    : out_(fresh_name()) {
  std::vector<char*> list;
  list.push_back(const_cast<char*>(program.c_str()));
  for (const std::string& argument : arguments) {
    list.push_back(const_cast<char*>(argument.c_str()));
  }
  list.push_back(nullptr);
  if (!in_child()) return;
  if (prepare) prepare();
  ::execv(program.c_str(), list.data());
  ::_exit(127);
}

Child::Child(const std::function<void()>& body) : out_(fresh_name()) {
  if (!in_child()) return;
  body();
  ::_exit(0);
}

bool Child::in_child() {
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("no child process");
  if (pid_ > 0) return false;
  const int file = ::open(out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  return true;
}

Child::~Child() {
  if (!ended_) {
    ::kill(pid_, SIGKILL);
    wait();
  }
  std::filesystem::remove(out_);
}

void Child::signal(int number) const { ::kill(pid_, number); }

bool Child::running() {
  if (!ended_) ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
  return !ended_;
}

Ended Child::wait() {
  if (!ended_) ::waitpid(pid_, &status_, 0);
  ended_ = true;
  return {WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_), contents(out_)};
}

bool wait_until(const std::function<bool()>& holds, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace norma::battery
