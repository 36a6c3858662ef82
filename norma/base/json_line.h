// One JSON object on one line, keys in the order they were added.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "norma/base/types.h"

namespace norma {

class JsonLine {
 public:
  JsonLine();
  ~JsonLine();
  JsonLine(const JsonLine&) = delete;
  JsonLine& operator=(const JsonLine&) = delete;

  JsonLine& add(std::string_view key, std::string_view value);
  JsonLine& add(std::string_view key, const char* value) {
    return add(key, std::string_view(value));
  }
  JsonLine& add(std::string_view key, double value);
  JsonLine& add(std::string_view key, Index value);
  JsonLine& add(std::string_view key, int value) { return add(key, Index{value}); }
  JsonLine& add(std::string_view key, bool value);
  std::string text() const;

 private:
  struct Fields;
  std::unique_ptr<Fields> fields_;
};

}  // namespace norma
