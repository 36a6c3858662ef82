// A scheme in words: the table of its sites, the equations of its block, what differs from another.
#pragma once

#include <string>
#include <vector>

#include "norma/nn/scheme.h"

namespace norma {

/// One line about a scheme: "attn_pre", "γ⊙x/√(mean(x²) + 1e-6)".
struct SchemeRow {
  std::string part;
  std::string text;
};

/// Everything that a scheme decides, in the order in which a token meets it.
std::vector<SchemeRow> describe(const Scheme& scheme);

/// The equations of one block (and of the overridden ones), a line each.
std::vector<std::string> equations(const Scheme& scheme);

/// The rows in which two schemes differ; each has the text of both.
struct SchemeDifference {
  std::string part;
  std::string ours;
  std::string theirs;
};
std::vector<SchemeDifference> difference(const Scheme& ours, const Scheme& theirs);

}  // namespace norma
