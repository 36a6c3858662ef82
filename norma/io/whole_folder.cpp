#include "norma/io/whole_folder.h"

#include "norma/base/text.h"
#include "norma/io/commit.h"

namespace norma::io {

namespace {

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

WholeFolder::WholeFolder(FileSystem& system, std::string path, Replace replace)
    : system_(system), path_(without_slashes(std::move(path))), replace_(std::move(replace)) {
  require_replaceable();
  make_folders(system_, parent_of(path_));
  temporary_.emplace(system_, path_);
}

void WholeFolder::require_replaceable() const {
  if (path_.empty()) throw RequestError("the name of the folder to write is empty.");
  if (!is_there(system_, path_)) return;
  if (!replace_.allowed) {
    throw RequestError(
        say(path_, " is there already; name another folder, or replace it with --force."));
  }
  for (const std::string& name : list_folder(system_, path_)) {
    if (!replace_.ours(name)) {
      throw RequestError(say(path_,
                             " holds ",
                             name,
                             ", which is not what would be written there, so it is not replaced; "
                             "name another folder."));
    }
  }
}

void WholeFolder::write(const std::string& name, const std::function<void(ByteSink&)>& produce) {
  File file(system_, join(temporary_->path(), name), OpenAs::create_new);
  produce(file);
  file.sync();
  file.close();
}

void WholeFolder::write(const std::string& name, std::string_view text) {
  write(name, [&](ByteSink& sink) { write_text(sink, text); });
}

void WholeFolder::finish() {
  require_replaceable();  // somebody may have made it meanwhile
  std::string former;
  if (is_there(system_, path_)) {
    sync_folder(system_, temporary_->path());  // what replaces it must be durable first
    former = move_aside(system_, parent_of(path_), last_part(path_));
  }
  temporary_->give_name();
  if (!former.empty()) remove_flat_folder(system_, former);
}

}  // namespace norma::io
