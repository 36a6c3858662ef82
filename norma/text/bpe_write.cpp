// The writing half of norma/text/bpe_files.h. The layout is that of Hugging Face's own files, one
// entry a line, so that two vocabularies can be compared with diff.

#include "norma/base/text.h"
#include "norma/io/strict_json.h"
#include "norma/text/bpe_files.h"
#include "norma/text/byte_alphabet.h"

namespace norma::text {

namespace {

/// Pieces as files spell them. Special tokens stand for themselves.
std::vector<std::string> spelled_pieces(const BpeModel& model) {
  std::vector<std::string> spelled;
  for (const std::string& piece : model.pieces) spelled.push_back(spell(piece));
  for (const SpecialToken& special : model.specials) {
    spelled[static_cast<std::size_t>(special.id)] = special.text;
  }
  return spelled;
}

std::string vocabulary(const std::vector<std::string>& pieces, std::string_view indent) {
  std::string text = "{";
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    text += say(id == 0 ? "\n" : ",\n", indent, "  ", io::json_string(pieces[id]), ": ", id);
  }
  return text + say("\n", indent, "}");
}

}  // namespace

std::string tokenizer_json(const BpeModel& model) {
  const std::vector<std::string> pieces = spelled_pieces(model);
  std::string text =
      "{\n"
      "  \"version\": \"1.0\",\n"
      "  \"truncation\": null,\n"
      "  \"padding\": null,\n"
      "  \"added_tokens\": [";
  for (std::size_t i = 0; i < model.specials.size(); ++i) {
    text += say(i == 0 ? "\n" : ",\n",
                "    {\"id\": ",
                model.specials[i].id,
                ", \"content\": ",
                io::json_string(model.specials[i].text),
                ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                "\"normalized\": false, \"special\": true}");
  }
  text +=
      "\n  ],\n"
      "  \"normalizer\": null,\n"
      "  \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
      "\"trim_offsets\": true, \"use_regex\": true},\n"
      "  \"post_processor\": null,\n"
      "  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
      "\"trim_offsets\": true, \"use_regex\": true},\n"
      "  \"model\": {\n"
      "    \"type\": \"BPE\",\n"
      "    \"dropout\": null,\n"
      "    \"unk_token\": null,\n"
      "    \"continuing_subword_prefix\": null,\n"
      "    \"end_of_word_suffix\": null,\n"
      "    \"fuse_unk\": false,\n"
      "    \"byte_fallback\": false,\n"
      "    \"vocab\": ";
  text += vocabulary(pieces, "    ") + ",\n    \"merges\": [";
  for (std::size_t i = 0; i < model.merges.size(); ++i) {
    text += say(i == 0 ? "\n" : ",\n",
                "      ",
                io::json_string(say(pieces[static_cast<std::size_t>(model.merges[i].left)],
                                    " ",
                                    pieces[static_cast<std::size_t>(model.merges[i].right)])));
  }
  return text + "\n    ]\n  }\n}\n";
}

std::string vocab_json(const BpeModel& model) {
  return vocabulary(spelled_pieces(model), "") + "\n";
}

std::string merges_txt(const BpeModel& model) {
  const std::vector<std::string> pieces = spelled_pieces(model);
  std::string text = "#version: 0.2\n";
  for (const Merge& merge : model.merges) {
    text += say(pieces[static_cast<std::size_t>(merge.left)],
                " ",
                pieces[static_cast<std::size_t>(merge.right)],
                "\n");
  }
  return text;
}

}  // namespace norma::text
