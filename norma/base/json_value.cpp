#include "norma/base/json_value.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "norma/base/error.h"
#include "norma/base/text.h"

namespace norma {

namespace {

/// Builds the value while the library reads. Reading is a loop, not a recursion, so the depth of a
/// hostile file costs no stack.
class Builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  Builder(std::string_view file, std::size_t depth) : file_(file), depth_(depth) {}

  JsonValue take() { return std::move(root_); }

  bool null() override {
    slot();
    return true;
  }
  bool boolean(bool value) override {
    JsonValue& into = slot(JsonValue::Kind::boolean);
    into.boolean = value;
    return true;
  }
  bool number_integer(number_integer_t value) override {
    slot(JsonValue::Kind::integer).integer = value;
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(INT64_MAX)) {
      slot(JsonValue::Kind::number).number = static_cast<double>(value);
    } else {
      slot(JsonValue::Kind::integer).integer = static_cast<std::int64_t>(value);
    }
    return true;
  }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    slot(JsonValue::Kind::number).number = value;
    return true;
  }
  bool string(string_t& value) override {
    slot(JsonValue::Kind::string).text = std::move(value);
    return true;
  }
  bool binary(binary_t& /*value*/) override { return false; }

  bool start_object(std::size_t /*count*/) override {
    enter(slot(JsonValue::Kind::object));
    return true;
  }
  bool key(string_t& value) override {
    open_.back()->members.push_back({std::move(value), {}});
    return true;
  }
  bool end_object() override {
    std::vector<std::string_view> keys;
    for (const JsonMember& member : open_.back()->members) keys.push_back(member.key);
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) throw Error(say(file_, ": the key \"", *twice, "\" comes twice."));
    open_.pop_back();
    return true;
  }
  bool start_array(std::size_t /*count*/) override {
    enter(slot(JsonValue::Kind::array));
    return true;
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool parse_error(std::size_t position,
                   const std::string& /*token*/,
                   const nlohmann::json::exception& /*why*/) override {
    throw Error(say(file_, ": this is not JSON; it goes wrong at byte ", position, "."));
  }

 private:
  /// Where the next value goes. An open container does not grow before its last element is closed,
  /// so the addresses in open_ stay good.
  JsonValue& slot(JsonValue::Kind kind = JsonValue::Kind::null) {
    JsonValue* into = &root_;
    if (!open_.empty()) {
      JsonValue& parent = *open_.back();
      into = parent.kind == JsonValue::Kind::object ? &parent.members.back().value
                                                    : &parent.items.emplace_back();
    }
    into->kind = kind;
    return *into;
  }
  void enter(JsonValue& container) {
    if (open_.size() >= depth_) {
      throw Error(say(file_, ": more than ", depth_, " levels of nesting."));
    }
    open_.push_back(&container);
  }

  std::string_view file_;
  std::size_t depth_;
  JsonValue root_;
  std::vector<JsonValue*> open_;
};

}  // namespace

const JsonValue* JsonValue::find(std::string_view key) const {
  const auto hit = std::find_if(
      members.begin(), members.end(), [&](const JsonMember& member) { return member.key == key; });
  return hit == members.end() ? nullptr : &hit->value;
}

JsonValue parse_json(std::string_view file, std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes) {
    throw Error(
        say(file, ": ", text.size(), " bytes of JSON; at most ", limits.bytes, " are read."));
  }
  Builder builder(file, limits.depth);
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

}  // namespace norma
