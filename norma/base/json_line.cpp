#include "norma/base/json_line.h"

#include <nlohmann/json.hpp>

namespace norma {

struct JsonLine::Fields {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
};

JsonLine::JsonLine() : fields_(std::make_unique<Fields>()) {}
JsonLine::~JsonLine() = default;

JsonLine& JsonLine::add(std::string_view key, std::string_view value) {
  fields_->object[std::string(key)] = std::string(value);
  return *this;
}
JsonLine& JsonLine::add(std::string_view key, double value) {
  fields_->object[std::string(key)] = value;
  return *this;
}
JsonLine& JsonLine::add(std::string_view key, Index value) {
  fields_->object[std::string(key)] = value;
  return *this;
}
JsonLine& JsonLine::add(std::string_view key, bool value) {
  fields_->object[std::string(key)] = value;
  return *this;
}
std::string JsonLine::text() const {
  return fields_->object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace norma
