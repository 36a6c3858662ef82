// Models as other programs store them (tools/goldens/exchange.py) give the logits that transformers
// and the independent implementation computed from them.
#include <algorithm>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "tests/exchange/models.h"
#include "tests/support/golden.h"

namespace norma::exchange {
namespace {

struct GoldenCase {
  const char* folder;
  const char* golden;
  NameMap map;
  std::vector<std::string> said;
};

class ExchangeGoldens : public testing::TestWithParam<GoldenCase> {};

TEST_P(ExchangeGoldens, SameLogits) {
  const std::string folder =
      std::string(NORMA_SOURCE_DIR) + "/tests/goldens/exchange/" + GetParam().folder;
  const Golden golden(GetParam().golden);
  const OwnedTensor ids = golden.tensor("ids", DType::i32);
  const std::vector<double> want = golden.values("logits");
  double scale = 0;
  for (const double value : want) scale = std::max(scale, std::abs(value));
  for (const char* precision : {"f32", "f64"}) {
    std::vector<std::string> said = GetParam().said;
    said.push_back(say("train.precision=\"", precision, "\""));
    Settings settings;
    for (const std::string& assignment : said) settings.set_assignment(assignment);
    EXPECT_EQ(Import(io::real_file_system(), folder, "auto", settings).map(), GetParam().map);
    const test::SmallModel model(io::real_file_system(), folder, "auto", said);
    const std::vector<double> got = model.logits(ids.tensor);
    ASSERT_EQ(got.size(), want.size());
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
      worst = std::max(worst, std::abs(got[i] - want[i]));
    const bool wide = std::string(precision) == "f64";
    EXPECT_LE(worst / scale, wide ? 1e-10 : 1e-5) << precision;
  }
}

// The sizes that names do not tell; these goldens have fewer key heads than the programs know.
const std::vector<GoldenCase> kCases = {
    {"gpt2", "transformers/gpt2", NameMap::gpt2, {}},
    {"gpt2-published", "transformers/gpt2", NameMap::gpt2, {}},
    {"llama", "transformers/llama", NameMap::llama, {}},
    {"llama-sharded", "transformers/llama", NameMap::llama, {}},
    {"nanogpt", "schemes/pre-ln", NameMap::nanogpt, {"model.heads=4", "model.kv_heads=2"}},
    {"ngpt",
     "schemes/ngpt",
     NameMap::ngpt,
     {"model.heads=4", "model.kv_heads=2", "model.context=9", "model.rope=interleaved"}},
    {"ngpt-baseline",
     "schemes/x-rope-defect",
     NameMap::ngpt,
     {"model.heads=4", "model.kv_heads=2", "model.context=9"}},
};
INSTANTIATE_TEST_SUITE_P(Folders,
                         ExchangeGoldens,
                         testing::ValuesIn(kCases),
                         [](const testing::TestParamInfo<GoldenCase>& at) {
                           std::string name = at.param.folder;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

using Tensors = std::map<std::string, std::pair<std::string, std::vector<std::byte>>>;

/// Name, type and shape, and bytes of every tensor.
Tensors tensors_in(io::FileSystem& disk, const std::string& path) {
  const io::SafetensorsFile file(disk, path);
  Tensors found;
  for (const io::StoredTensor& tensor : file.layout().tensors) {
    std::vector<std::byte> bytes(tensor.bytes());
    file.read(tensor, bytes);
    found[tensor.name] = {io::text_of(tensor), std::move(bytes)};
  }
  return found;
}

/// What was read from a foreign folder is written as that folder was.
TEST(ExchangeGoldens, ExportsAreWhatOthersWrote) {
  for (const char* name : {"gpt2", "llama"}) {
    const std::string folder = std::string(NORMA_SOURCE_DIR) + "/tests/goldens/exchange/" + name;
    for (const char* layout : {"model.rope=half_split", "model.rope=interleaved"}) {
      const test::SmallModel model(io::real_file_system(), folder, "auto", {layout});
      test::MemoryDisk disk;
      export_model(disk, model.model(), model.facts(), {.folder = "out"});
      EXPECT_EQ(tensors_in(disk, "out/model.safetensors"),
                tensors_in(io::real_file_system(), folder + "/model.safetensors"))
          << name << " with " << layout;
    }
  }
}

}  // namespace
}  // namespace norma::exchange
