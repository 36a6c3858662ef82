// The one door from a path to tokens.
#pragma once

#include <optional>
#include <vector>

#include "norma/data/data_spec.h"
#include "norma/data/dataset_info.h"
#include "norma/data/shards.h"
#include "norma/data/token_data.h"
#include "norma/io/file_system.h"

namespace norma {

/// What a data.path holds, every file checked: its size, its header, its digest where one is known.
struct Dataset {
  DataFormat format = DataFormat::automatic;
  std::vector<ShardFile> train;  // of a text: none
  std::vector<ShardFile> val;
  std::optional<DatasetInfo> info;  // of our own folders
  TokenData data;
};

/// data.path may be
///   a folder of ours       dataset.json, train.bin, val.bin, tokenizer.json
///   a folder of nanoGPT    train.bin, val.bin of 2-byte ids; meta.json may give the vocabulary
///   a folder of llm.c      *_train_*.bin and *_val_*.bin, in name order
///   a text file            its bytes; the last data.val_fraction of them is the validation split
/// A tokenizer.json beside somebody else's shards is taken for theirs.
///
/// Every id must be below `model_vocab` (0: there is no model yet). A RequestError where the path
/// or the model cannot be right, an Error where a file is damaged; both before anything is trained.
Dataset open_dataset(const DataSpec& spec,
                     Index model_vocab,
                     io::FileSystem& disk = io::real_file_system());

/// Only the tokens.
TokenData load_data(const DataSpec& spec,
                    Index model_vocab,
                    io::FileSystem& disk = io::real_file_system());

}  // namespace norma
