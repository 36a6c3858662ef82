#include "norma/io/seal.h"

#include <algorithm>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/io/digest.h"

namespace norma::io {

namespace {

std::string tail_of(std::string_view body) {
  const Digest digest = digest_of(std::as_bytes(std::span(body.data(), body.size())));
  return say(",\n  \"digest\": \"", digest.text(), "\"\n}\n");
}

}  // namespace

std::string sealed(std::string body) {
  body += tail_of(body);
  return body;
}

void require_seal(std::string_view path, std::string_view text) {
  const std::size_t tail = tail_of("").size();
  const std::string_view body = text.substr(0, text.size() - std::min(tail, text.size()));
  if (text.substr(body.size()) != tail_of(body)) {
    throw Error(say(path, " does not match its own digest: it was cut off or changed."));
  }
}

}  // namespace norma::io
