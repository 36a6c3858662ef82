#include "norma/train/kept_choices.h"

#include <utility>

#include "norma/base/error.h"
#include "norma/device/choices.h"
#include "norma/io/cache_folder.h"
#include "norma/io/file.h"

namespace norma {

namespace {

constexpr std::uint64_t kLargest = std::uint64_t{16} << 20;

}  // namespace

KeptChoices::KeptChoices(io::FileSystem& disk, std::string path)
    : disk_(disk), path_(std::move(path)) {
  if (!io::is_there(disk_, path_)) return;
  try {
    device::add_choices(io::File(disk_, path_, io::OpenAs::read).text(kLargest));
    saved_ = device::choices_text();
  } catch (const Error&) {
    // What was chosen once can be chosen again; save() writes a fresh file.
  }
}

void KeptChoices::save() {
  std::string now = device::choices_text();
  if (now == saved_) return;
  io::make_folders(disk_, io::parent_of(path_));
  io::replace_file(disk_, path_, now);
  saved_ = std::move(now);
}

std::string choices_path() { return io::join(io::cache_folder(), "gpu_choices.txt"); }

}  // namespace norma
