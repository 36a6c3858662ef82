#include "norma/train/kept_choices.h"

#include <utility>

#include "norma/base/error.h"
#include "norma/device/choices.h"
#include "norma/io/cache_folder.h"
#include "norma/io/file.h"

namespace norma {

namespace {

/// What was chosen once can be chosen again, so a file that cannot be read holds nothing.
std::string text_of(io::FileSystem& disk, const std::string& path) {
  constexpr std::uint64_t kLargest = std::uint64_t{16} << 20;
  try {
    if (!io::is_there(disk, path)) return {};
    return io::File(disk, path, io::OpenAs::read).text(kLargest);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

KeptChoices::KeptChoices(io::FileSystem& disk, Files files)
    : disk_(disk), files_(std::move(files)) {
  const std::string of_run = text_of(disk_, files_.of_run);
  const std::string of_machine = text_of(disk_, files_.of_machine);
  device::add_choices(of_run);
  device::add_choices(of_machine);
  if (device::choices_text() == (files_.run_is_written ? of_run : of_machine)) {
    saved_ = device::choices_made();
  }
}

void KeptChoices::save() {
  const std::size_t now = device::choices_made();
  if (now == saved_) return;  // so after nearly every step
  if (files_.run_is_written) io::replace_file(disk_, files_.of_run, device::choices_text());
  saved_ = now;  // a machine's file that cannot be written is not tried at every step
  // Runs that began at the same time may have chosen otherwise: the first to say so decides for
  // those to come, and each keeps its own in its folder.
  const std::string of_machine = text_of(disk_, files_.of_machine);
  const std::string together = device::choices_with(of_machine);
  if (together != of_machine) {
    io::make_folders(disk_, io::parent_of(files_.of_machine));
    io::replace_file(disk_, files_.of_machine, together);
  }
}

std::string choices_path() { return io::join(io::cache_folder(), "gpu_choices.txt"); }

}  // namespace norma
