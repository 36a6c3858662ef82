// Which documents are for validation.
#pragma once

#include <cstdint>

namespace norma {

/// A pure function of seed and number. Documents are counted into stretches of 1/val_fraction, and
/// one of each stretch, drawn at random, is for validation, so the share is right for any number of
/// documents. The first document is always for training.
bool is_validation(std::uint64_t document, double val_fraction, std::uint64_t seed);

}  // namespace norma
