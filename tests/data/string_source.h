// A text as a stream of bytes that come a few at a time.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>

#include "norma/io/byte_source.h"

namespace norma::test {

class StringSource final : public io::ByteSource {
 public:
  explicit StringSource(std::string text) : text_(std::move(text)) {}

  std::size_t read(std::span<std::byte> into) override {
    constexpr std::size_t kBite = 65521;
    const std::size_t count = std::min({into.size(), text_.size() - at_, kBite});
    std::memcpy(into.data(), text_.data() + at_, count);
    at_ += count;
    return count;
  }
  const std::string& name() const override { return name_; }
  std::uint64_t position() const override { return at_; }
  std::optional<std::uint64_t> size() const override { return text_.size(); }

 private:
  std::string text_;
  std::string name_ = "a string";
  std::size_t at_ = 0;
};

}  // namespace norma::test
