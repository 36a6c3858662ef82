// Members of a tar archive (POSIX ustar, as npm packs), read as a stream.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "norma/io/byte_source.h"

namespace norma::fetch {

using Members = std::map<std::string, std::string>;  // name -> contents

/// The regular files whose name `wants` accepts. The archive is read to its end, so that the
/// checksum of its compression counts. An Error for an archive that is cut off, has a wrong header
/// checksum, a name that leaves its folder, a wanted name twice, or wanted members of more than
/// 256 MiB together. Links and devices are passed over, as are the notes of newer formats (pax),
/// which can only name what we do not look for.
Members read_tar(io::ByteSource& archive, const std::function<bool(std::string_view)>& wants);

}  // namespace norma::fetch
