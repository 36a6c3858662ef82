#include "norma/base/settings.h"

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "norma/base/read_fields.h"

namespace norma {
namespace {

enum class Colour { red, green };

}  // namespace

template <>
struct Words<Colour> {
  static constexpr std::array<std::pair<std::string_view, Colour>, 2> kAll{
      {{"red", Colour::red}, {"green", Colour::green}}};
};

namespace {

struct Spec {
  Index steps = 10;
  double lr = 0.5;
  bool fast = false;
  std::string name = "none";
  Colour colour = Colour::red;
  std::vector<double> betas;
  Formula scale{"1"};
  template <class F>
  void fields(F&& f) {
    f("steps", steps, "how many", Range{1, 1000});
    f("lr", lr, "how fast", Range{0, 10});
    f("fast", fast, "really");
    f("name", name, "what");
    f("colour", colour, "which");
    f("betas", betas, "two");
    f("scale", scale, "a formula");
  }
};

Spec read(const Settings& settings) {
  Spec spec;
  SettingsReader reader(settings);
  reader.read("run", spec);
  reader.refuse_unknown();
  return spec;
}

std::string refusal(const std::string& toml) {
  try {
    read(Settings::from_toml(toml, "file.toml"));
  } catch (const RequestError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Settings, TomlBecomesDottedKeysThatKnowTheirLine) {
  const Settings settings = Settings::from_toml(
      "[run]\nsteps = 3\nname = \"é\"  # ü\n[[layers]]\nfrom = 1\n[[layers]]\nfrom = 2\n",
      "a.toml");
  ASSERT_NE(settings.find("run.steps"), nullptr);
  EXPECT_EQ(settings.find("run.steps")->origin, "a.toml:2");
  EXPECT_EQ(std::get<std::string>(settings.find("run.name")->value), "é");
  EXPECT_EQ(std::get<Index>(settings.find("layers.1.from")->value), 2);
  EXPECT_EQ(settings.below("layers.0").entries().size(), 1U);
}

TEST(Settings, AssignmentsTakeTomlOrABareWord) {
  Settings settings;
  settings.set_assignment("run.lr=1e-3");
  settings.set_assignment("run.name=rms");
  settings.set_assignment("run.name2=\"1\"");
  settings.set_assignment("run.fast=true");
  settings.set_assignment("run.slot={norm=\"l2\", eps=1e-3}");
  EXPECT_DOUBLE_EQ(std::get<double>(settings.find("run.lr")->value), 1e-3);
  EXPECT_EQ(std::get<std::string>(settings.find("run.name")->value), "rms");
  EXPECT_EQ(std::get<std::string>(settings.find("run.name2")->value), "1");
  EXPECT_TRUE(std::get<bool>(settings.find("run.fast")->value));
  EXPECT_EQ(std::get<std::string>(settings.find("run.slot.norm")->value), "l2");
  for (const char* bad : {"lr", "=3", "a b=3", "lr=", "lr=[1,", "lr=1 2\n3"}) {
    EXPECT_THROW(settings.set_assignment(bad), RequestError) << bad;
  }
}

TEST(Settings, FieldsAreReadWithTheirTypes) {
  Settings settings = Settings::from_toml(
      "[run]\nsteps = 1e2\nlr = 1\nfast = true\ncolour = \"green\"\nbetas = [0.5, 1]\nscale = 2",
      "f");
  const Spec spec = read(settings);
  EXPECT_EQ(spec.steps, 100);
  EXPECT_EQ(spec.lr, 1.0);
  EXPECT_TRUE(spec.fast);
  EXPECT_EQ(spec.name, "none");
  EXPECT_EQ(spec.colour, Colour::green);
  EXPECT_EQ(spec.betas, (std::vector<double>{0.5, 1}));
  EXPECT_EQ(spec.scale.text, "2");
}

TEST(Settings, RefusalsNameTheKeyTheRangeAndTheNearestWord) {
  EXPECT_EQ(refusal("run.steps = 0"),
            "run.steps must be a whole number between 1 and 1000, got 0 (file.toml:1).");
  EXPECT_EQ(refusal("run.steps = 1.5"), "run.steps must be a whole number, got 1.5 (file.toml:1).");
  EXPECT_EQ(refusal("run.lr = \"x\""),
            "run.lr must be a number between 0 and 10, got \"x\" (file.toml:1).");
  EXPECT_EQ(refusal("run.lr = nan"),
            "run.lr must be a number between 0 and 10, got nan (file.toml:1).");
  EXPECT_EQ(refusal("run.colour = \"gren\""),
            "run.colour must be red or green, got \"gren\" (file.toml:1). Did you mean green?");
  EXPECT_EQ(refusal("run.step = 3"),
            "there is no setting run.step (file.toml:1). Did you mean run.steps?");
  EXPECT_EQ(refusal("run.fast = 1"), "run.fast must be true or false, got 1 (file.toml:1).");
}

TEST(Settings, WhatIsNotTomlIsRefusedWithItsLine) {
  for (const char* bad : {"a = ",
                          "a = 1\na = 2",
                          "[a",
                          "a = 2020-01-01",
                          "a = [\"x\"]",
                          "ä = 1",
                          "\"a.b\" = 1",
                          "a = \"\"\"x"}) {
    const std::string text = refusal(bad);
    EXPECT_TRUE(text.starts_with("file.toml:")) << bad << " -> " << text;
  }
}

TEST(Settings, WritingReadsBackTheSame) {
  Spec spec;
  spec.lr = 0.1;
  spec.betas = {1.0 / 3, 2};
  spec.name = "quote \" and \\";
  Settings written;
  write_fields(written, {}, "run", spec);
  std::string toml;
  for (const auto& entry : written.entries())
    toml += say(entry.key, " = ", to_toml(entry.value), "\n");
  const Spec again = read(Settings::from_toml(toml, "again"));
  EXPECT_EQ(again.lr, 0.1);
  EXPECT_EQ(again.betas, spec.betas);
  EXPECT_EQ(again.name, spec.name);
}

TEST(Settings, ControlCharactersReadBackTheSame) {
  Settings settings;
  settings.set({"prompt", std::string("a\r\n\t\x01\x7f\"\\ü"), ""});
  const Settings again = Settings::from_toml(toml_text(settings, Origins::hidden), "again");
  EXPECT_EQ(again.find("prompt")->value, settings.find("prompt")->value);
}

TEST(Settings, MoreThanTenTablesKeepTheirOrder) {
  Settings settings;
  for (Index i = 0; i < 12; ++i) settings.set({say("layers.", i, ".from"), 100 + i, ""});
  const Settings again = Settings::from_toml(toml_text(settings, Origins::hidden), "again");
  for (Index i = 0; i < 12; ++i) {
    EXPECT_EQ(std::get<Index>(again.find(say("layers.", i, ".from"))->value), 100 + i);
  }
}

TEST(Settings, KeysAreFoundAfterOthersWereRemoved) {
  Settings settings;
  for (const char* key : {"z", "q.norm", "b", "q", "q.eps", "qq.norm", "a"}) {
    settings.set({key, std::string(key), ""});
  }
  settings.remove_below("q");
  EXPECT_EQ(settings.find("q.norm"), nullptr);
  EXPECT_EQ(settings.find("q.eps"), nullptr);
  std::string order;
  for (const Settings::Entry& entry : settings.entries()) {
    order += say(entry.key, " ");
    EXPECT_EQ(settings.find(entry.key), &entry);
  }
  EXPECT_EQ(order, "z b q qq.norm a ");
  settings.set({"b", Index{1}, ""});
  EXPECT_EQ(settings.entries().size(), 5U);
  EXPECT_EQ(settings.below("qq").entries()[0].key, "norm");
}

}  // namespace
}  // namespace norma
