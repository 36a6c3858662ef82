// Documents out of a stream of bytes, piece by piece, so that neither a file nor a document has to
// fit into memory.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "norma/io/byte_source.h"

namespace norma {

/// A piece of a document; the last one of it says so (and may be empty).
using TakePiece = std::function<void(std::string_view piece, bool last)>;

/// Plain text: a line that is exactly `separator` ends a document and belongs to none; an empty
/// separator never does. The end of the source ends a document. Pieces end where text may be cut
/// (norma/text/words.h); text without white space for 16 MiB is cut there all the same.
void read_text_documents(io::ByteSource& source, std::string_view separator, const TakePiece& take);

/// A line is an object, and its member `field` a document. Empty lines are skipped. An Error names
/// the line that is no JSON, lacks the field or is longer than 256 MiB.
void read_jsonl_documents(io::ByteSource& source, std::string_view field, const TakePiece& take);

}  // namespace norma
