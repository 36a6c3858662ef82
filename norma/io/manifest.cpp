#include "norma/io/manifest.h"

#include "norma/base/text.h"
#include "norma/io/file.h"
#include "norma/io/seal.h"
#include "norma/io/strict_json.h"

namespace norma::io {

namespace {

constexpr std::string_view kFormat = "norma-checkpoint";
constexpr std::uint64_t kVersion = 1;

ManifestFile read_file_entry(StrictJson& json, const std::string& name) {
  ManifestFile entry;
  if (!is_plain_file_name(name) || name == kManifestName) {
    json.refuse(say(json_string_start(name), " is not the name of a checkpoint's file."));
  }
  json.object([&](const std::string& key) {
    if (key == "bytes") {
      entry.bytes = json.integer();
    } else if (key == "xxh3_128") {
      entry.digest = json.string();
    } else {
      json.refuse(say("unknown key ", json_string_start(key), "."));
    }
  });
  return entry;
}

}  // namespace

std::string text_of(const Manifest& manifest) {
  std::string body = say("{\n  \"format\": ",
                         json_string(kFormat),
                         ",\n  \"version\": ",
                         kVersion,
                         ",\n  \"step\": ",
                         manifest.step,
                         ",\n  \"facts\": {");
  std::string_view separator = "";
  for (const auto& [key, value] : manifest.facts) {
    body += say(separator, "\n    ", json_string(key), ": ", json_string(value));
    separator = ",";
  }
  body += "\n  },\n  \"files\": {";
  separator = "";
  for (const auto& [name, file] : manifest.files) {
    body += say(separator,
                "\n    ",
                json_string(name),
                ": {\"bytes\": ",
                file.bytes,
                ", \"xxh3_128\": ",
                json_string(file.digest),
                "}");
    separator = ",";
  }
  return sealed(body + "\n  }");
}

Manifest parse_manifest(std::string_view path, std::string_view text) {
  require_seal(path, text);
  Manifest manifest;
  StrictJson json{std::string(path), text};
  json.object([&](const std::string& key) {
    if (key == "format") {
      const std::string format = json.string();
      if (format != kFormat) json.refuse(say("expected the format ", kFormat, ", found ", format));
    } else if (key == "version") {
      const std::uint64_t version = json.integer();
      if (version != kVersion) {
        json.refuse(say("this program reads version ", kVersion, ", found version ", version, "."));
      }
    } else if (key == "step") {
      manifest.step = json.integer();
    } else if (key == "facts") {
      json.object([&](const std::string& fact) { manifest.facts.emplace(fact, json.string()); });
    } else if (key == "files") {
      json.object([&](const std::string& name) {
        manifest.files.emplace(name, read_file_entry(json, name));
      });
    } else if (key == "digest") {
      json.string();
    } else {
      json.refuse(say("unknown key ", json_string_start(key), "."));
    }
  });
  json.end();
  // One form only: a key that is missing or a digest of another place cannot slip through.
  if (text_of(manifest) != text) {
    throw Error(say(path, " is not in the form in which this program writes manifests."));
  }
  return manifest;
}

}  // namespace norma::io
