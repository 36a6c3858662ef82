// Files that lie, contradict each other or are damaged: each gets a sentence, before anything is
// loaded.
#include "norma/exchange/import.h"

#include <string_view>

#include <gtest/gtest.h>

#include "norma/base/build_info.h"
#include "norma/base/text.h"
#include "tests/exchange/models.h"
#include "tests/support/expect.h"

namespace norma::exchange {
namespace {

using test::MemoryDisk;
using test::SmallModel;
using test::throws;

/// An export of a small GPT-2 or Llama that tests tamper with.
class BadImport : public testing::Test {
 protected:
  BadImport() { write("gpt2", {"scheme.base=pre-ln", "model.bias=true"}); }

  void write(const std::string& folder, const std::vector<std::string>& settings) {
    const SmallModel model(settings);
    export_model(disk_, model.model(), model.facts(), {.folder = folder});
  }
  testing::AssertionResult refused(const std::string& folder,
                                   std::initializer_list<std::string_view> texts,
                                   const std::string& map = "auto",
                                   const std::vector<std::string>& said = {}) {
    return throws<Error>([&] { SmallModel(disk_, folder, map, said); }, texts);
  }
  /// config.json with one piece of text replaced.
  testing::AssertionResult config_refused(const std::string& folder,
                                          const std::string& from,
                                          const std::string& to,
                                          std::initializer_list<std::string_view> texts) {
    const std::string path = folder + "/config.json";
    const std::string sound = disk_.bytes_of(path);
    std::string text = sound;
    const std::size_t at = text.find(from);
    if (at == std::string::npos)
      return testing::AssertionFailure() << from << " is not in " << text;
    disk_.put(path, text.replace(at, from.size(), to));
    const testing::AssertionResult result = refused(folder, texts);
    disk_.put(path, sound);
    return result;
  }
  /// The weights without a tensor, or with its bytes, under another name.
  void rename_tensor(const std::string& from, const std::string& to) {
    std::string bytes = disk_.bytes_of("gpt2/model.safetensors");
    const std::size_t at = bytes.find("\"" + from + "\"");
    ASSERT_NE(at, std::string::npos);
    ASSERT_EQ(from.size(), to.size()) << "the header keeps its length";
    disk_.put("gpt2/model.safetensors", bytes.replace(at + 1, from.size(), to));
  }

  MemoryDisk disk_;
};

TEST_F(BadImport, TheTemplateOfTheseTestsIsSound) {
  EXPECT_NO_THROW(SmallModel(disk_, "gpt2", "auto"));
}

TEST_F(BadImport, NothingToImport) {
  EXPECT_TRUE(refused("absent", {"there is no absent"}));
  disk_.make_folder("pickle");
  disk_.put("pickle/pytorch_model.bin", "x");
  EXPECT_TRUE(refused("pickle", {"neither model.safetensors nor", "can hold code"}));
  disk_.make_folder("strange");
  disk_.put("strange/model.safetensors", disk_.bytes_of("gpt2/model.safetensors"));
  EXPECT_TRUE(refused("strange", {"has no config.json"}, "hf"));
  EXPECT_TRUE(refused("strange", {"no norma.recipe"}, "norma"));
}

TEST_F(BadImport, NamesThatNobodyUses) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  disk_.make_folder("odd");
  disk_.put("odd/model.safetensors", bytes + header + "abcd");
  EXPECT_TRUE(refused("odd", {"looks like no model that Norma knows", "--map"}));
}

TEST_F(BadImport, ConfigThatIsNoConfig) {
  disk_.put("gpt2/config.json", "");
  EXPECT_TRUE(refused("gpt2", {"gpt2/config.json"}, "hf"));
  disk_.put("gpt2/config.json", "[\"model_type\"]");
  EXPECT_TRUE(refused("gpt2", {"gpt2/config.json: an object was expected"}));
  disk_.put("gpt2/config.json", R"({"model_type": "gpt2", "model_type": "llama"})");
  EXPECT_TRUE(refused("gpt2", {"gpt2/config.json", "twice"}));
  disk_.put("gpt2/config.json", R"({"model_type": "bert"})");
  EXPECT_TRUE(refused("gpt2", {"must be gpt2 or llama", "\"bert\""}));
  disk_.put("gpt2/config.json", R"({"model_type": "gpt2"})");
  EXPECT_TRUE(refused("gpt2", {"n_layer is missing"}));
}

TEST_F(BadImport, ConfigOfAModelThatNormaDoesNotHave) {
  EXPECT_TRUE(
      config_refused("gpt2", "\"n_layer\": 2", "\"n_layer\": -2", {"n_layer must be a whole"}));
  EXPECT_TRUE(
      config_refused("gpt2", "\"n_layer\": 2", "\"n_layer\": 2.5", {"n_layer must be a whole"}));
  EXPECT_TRUE(
      config_refused("gpt2", "\"n_layer\": 2", "\"n_layer\": \"2\"", {"n_layer must be a whole"}));
  EXPECT_TRUE(config_refused("gpt2", "\"gelu\"", "\"mish\"", {"activation_function is \"mish\""}));
  EXPECT_TRUE(
      config_refused("gpt2", "1e-05", "\"small\"", {"layer_norm_epsilon must be a number"}));
  EXPECT_TRUE(config_refused("gpt2", "1e-05", "-1.0", {"eps"}));
  EXPECT_TRUE(config_refused("gpt2",
                             "\"scale_attn_weights\": true",
                             "\"scale_attn_weights\": false",
                             {"scale_attn_weights is false"}));
  EXPECT_TRUE(
      config_refused("gpt2", "\"use_cache\"", "\"quantization_config\": {}, \"x\"", {"quantized"}));
  write("llama", {"scheme.base=pre-rms"});
  EXPECT_TRUE(config_refused(
      "llama", "\"attention_bias\": false", "\"attention_bias\": true", {"only one of"}));
  EXPECT_TRUE(config_refused(
      "llama", "\"rope_theta\": 10000.0,", "\"rope_theta\": 5e5,", {"in one place and 10000"}));
  EXPECT_TRUE(
      config_refused("llama", "\"default\"", "\"llama3\"", {"stretches the rotary positions"}));
}

TEST_F(BadImport, ConfigThatContradictsTheWeights) {
  EXPECT_TRUE(config_refused(
      "gpt2",
      "\"n_layer\": 2",
      "\"n_layer\": 3",
      {"does not fit the model, and nothing was loaded", "12 missing: h.2.ln_1.weight"}));
  EXPECT_TRUE(config_refused(
      "gpt2", "\"n_layer\": 2", "\"n_layer\": 1", {"12 unexpected: h.1.attn.c_attn.bias"}));
  EXPECT_TRUE(config_refused("gpt2",
                             "\"vocab_size\": 20",
                             "\"vocab_size\": 21",
                             {"wte.weight is F32 (20, 16) and should be F32 (21, 16)"}));
  EXPECT_TRUE(
      config_refused("gpt2", "\"n_head\": 4", "\"n_head\": 3", {"model.heads must divide"}));
  EXPECT_TRUE(config_refused("gpt2", "\"n_positions\": 12", "\"n_positions\": 13", {"wpe.weight"}));
  EXPECT_TRUE(config_refused(
      "gpt2", "\"n_layer\": 2", "\"n_layer\": 9223372036854775807", {"model.layers"}));
}

TEST_F(BadImport, ConfigOfAModelThatNoMachineHolds) {
  if (std::string_view(build::kSanitizers) == "thread") {
    GTEST_SKIP() << "the thread sanitizer leaves no addresses to plan 32 TiB in";
  }
  EXPECT_TRUE(
      config_refused("gpt2", "\"n_embd\": 16", "\"n_embd\": 1048576", {"nothing was loaded"}));
}

TEST_F(BadImport, ATiedHeadThatIsNot) {
  write("untied", {"scheme.base=pre-ln", "model.bias=true", "model.tied=false"});
  EXPECT_TRUE(config_refused("untied",
                             "\"tie_word_embeddings\": false",
                             "\"tie_word_embeddings\": true",
                             {"tie_word_embeddings", "another lm_head.weight"}));
  EXPECT_TRUE(config_refused("gpt2",
                             "\"tie_word_embeddings\": true",
                             "\"tie_word_embeddings\": false",
                             {"1 missing: lm_head.weight"}));
}

TEST_F(BadImport, TensorsThatAreMissingOrTooMany) {
  rename_tensor("transformer.wpe.weight", "transformer.wpx.weight");
  EXPECT_TRUE(refused("gpt2", {"1 missing: wpe.weight", "1 unexpected: wpx.weight"}));
}

TEST_F(BadImport, TwoNamesThatBecomeOne) {
  rename_tensor("transformer.ln_f.weight", "module.model.wpe.weight");
  EXPECT_TRUE(refused("gpt2", {"two tensors are called wpe.weight"}));
}

TEST_F(BadImport, ValuesThatAreNoNumbers) {
  std::string bytes = disk_.bytes_of("gpt2/model.safetensors");
  bytes[bytes.size() - 1] = '\x7f';
  bytes[bytes.size() - 2] = '\xc0';
  disk_.put("gpt2/model.safetensors", bytes);
  EXPECT_TRUE(refused("gpt2", {"1 values of ", "are not finite numbers"}));
}

TEST_F(BadImport, EveryTruncationIsSeen) {
  const std::string bytes = disk_.bytes_of("gpt2/model.safetensors");
  for (std::size_t length = 0; length < bytes.size(); length += 97) {
    disk_.put("gpt2/model.safetensors", bytes.substr(0, length));
    EXPECT_TRUE(refused("gpt2", {"gpt2/model.safetensors"})) << length;
  }
}

TEST_F(BadImport, TypesThatAreNoWeights) {
  std::string bytes = disk_.bytes_of("gpt2/model.safetensors");
  const std::size_t at = bytes.find("\"F32\"", bytes.find("wpe.weight"));
  disk_.put("gpt2/model.safetensors", bytes.replace(at, 5, "\"I32\""));
  EXPECT_TRUE(refused("gpt2", {"wpe.weight is I32 (12, 16) and should be F32 (12, 16)"}));
}

TEST_F(BadImport, AnIndexThatLies) {
  const SmallModel model({"scheme.base=pre-ln", "model.bias=true"});
  export_model(disk_, model.model(), model.facts(), {.folder = "cut", .shard_bytes = 5000});
  EXPECT_NO_THROW(SmallModel(disk_, "cut", "auto"));
  const std::string path = "cut/model.safetensors.index.json";
  const std::string sound = disk_.bytes_of(path);
  const std::size_t at = sound.find("model-00001");
  disk_.put(path, std::string(sound).replace(at, 8, "../../ev"));
  EXPECT_TRUE(refused("cut", {path, "not the name of a file beside the index"}));
  disk_.put(path, std::string(sound).replace(at, 11, "model-00002"));
  EXPECT_TRUE(refused("cut", {"wte.weight"}));
}

TEST_F(BadImport, SizesThatNamesDoNotTell) {
  const std::string from = std::string(NORMA_SOURCE_DIR) + "/tests/goldens/exchange/";
  const auto import_real = [&](const std::string& folder, const std::vector<std::string>& said) {
    SmallModel(io::real_file_system(), from + folder, "auto", said);
  };
  EXPECT_TRUE(throws<RequestError>([&] { import_real("nanogpt", {}); },
                                   {"do not tell model.heads", "model.heads=12"}));
  EXPECT_TRUE(throws<RequestError>([&] { import_real("ngpt", {"model.heads=4"}); },
                                   {"do not tell model.context"}));
  // A file can be named without its folder, and a map can be demanded.
  EXPECT_TRUE(throws<Error>([&] { import_real("nanogpt/model.safetensors", {"model.heads=4"}); },
                            {"attn.c_attn.weight is F32 (32, 16) and should be F32 (48, 16)"}));
}

TEST_F(BadImport, ConfigBesideANanoGpt) {
  SmallModel model({"scheme.base=pre-ln"});
  const TensorMap ours = tensors_of(model.model());
  MemoryDisk disk;
  disk.make_folder("nano");
  disk.put("nano/config.json", R"({"n_head": 4, "block_size": 12, "n_layer": 2, "dropout": 0.0})");
  const std::vector<Joint> joints = joints_of(NameMap::nanogpt, model.recipe.model, ours);
  const io::StoredType& type = *io::find_stored_type("F32");
  std::vector<io::TensorSpec> specs;
  specs.reserve(joints.size());
  for (const Joint& joint : joints) specs.push_back(stored_spec(joint, ours, type));
  {
    io::File file(disk, "nano/model.safetensors", io::OpenAs::create_new);
    io::SafetensorsWriter writer(file, specs, {});
    for (const io::StoredTensor& stored : writer.order()) {
      for (const Joint& joint : joints) {
        if (joint.theirs == stored.name) writer.write(stored.name, gather(joint, ours, type));
      }
    }
    writer.finish();
    file.close();
  }
  EXPECT_TRUE(test::same_weights(SmallModel(disk, "nano", "auto").model(), model.model()));
  disk.put("nano/config.json", R"({"n_head": 4, "block_size": 13})");
  EXPECT_TRUE(throws<Error>([&] { SmallModel(disk, "nano", "auto"); },
                            {"block_size is 13, but the tensors say 12"}));
  disk.put("nano/config.json", R"({"n_head": "four"})");
  EXPECT_TRUE(
      throws<Error>([&] { SmallModel(disk, "nano", "auto"); }, {"n_head must be a whole number"}));
}

TEST_F(BadImport, OwnMetadataThatLie) {
  const SmallModel model({"scheme.base=ngpt"});
  export_model(
      disk_, model.model(), model.facts(), {.form = ExportForm::safetensors, .folder = "own"});
  const std::string sound = disk_.bytes_of("own/model.safetensors");
  const auto tampered = [&](const std::string& from, const std::string& to) {
    std::string bytes = sound;
    const std::size_t at = bytes.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    disk_.put("own/model.safetensors", bytes.replace(at, from.size(), to));
  };
  tampered("model.layers = 2", "model.layers = 3");
  EXPECT_TRUE(refused("own", {"nothing was loaded", "missing: blocks.2."}));
  tampered("model.layers = 2", "model.layrrs = 2");
  EXPECT_TRUE(refused("own", {"model.layrrs", "model.layers"}));
  tampered("model.layers = 2", "model.layers = [");
  EXPECT_TRUE(refused("own", {"own/model.safetensors, norma.recipe"}));
  tampered("norma.step\":\"7\"", "norma.step\":\"x\"");
  EXPECT_TRUE(refused("own", {"is no step"}));
}

}  // namespace
}  // namespace norma::exchange
