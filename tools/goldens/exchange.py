#!/usr/bin/env python3
"""Models as other programs store them; writes tests/goldens/exchange, one folder each.

The numbers are those of goldens that exist already (tests/goldens/transformers, whose logits transformers itself computed, and
tests/goldens/schemes); only names, order and layout are changed here, by tables that were written apart from Norma's own.
"""

import json

import numpy as np

import storage
from from_transformers import PRE, gpt2_names, llama_names

FOLDER = storage.GOLDENS / "exchange"


def parameters(golden):
    tensors, settings = storage.read(storage.GOLDENS / f"{golden}.safetensors")
    return {name[6:]: value for name, value in tensors.items() if name.startswith("param/")}, settings


def under_their_names(names, values):
    """(their name, our names side by side, whether theirs is transposed) applied to the values."""
    renamed = {}
    for theirs, ours, transposed in names:
        joined = np.concatenate([values[name] for name in ours])
        renamed[theirs] = np.ascontiguousarray(joined.T if transposed else joined)
    return renamed


def gpt2_config(size):
    return {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new", "attn_pdrop": 0.1,
        "bos_token_id": 0, "eos_token_id": 0, "embd_pdrop": 0.1, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05,
        "n_ctx": size["context"], "n_embd": size["width"], "n_head": size["heads"], "n_inner": size["ffn_width"],
        "n_layer": size["layers"], "n_positions": size["context"], "resid_pdrop": 0.1, "scale_attn_weights": True,
        "summary_type": "cls_index", "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
        "vocab_size": size["vocab"],
    }


def llama_config(size):
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": False, "hidden_act": "silu",
        "hidden_size": size["width"], "intermediate_size": size["ffn_width"], "num_attention_heads": size["heads"],
        "num_key_value_heads": size["kv_heads"], "num_hidden_layers": size["layers"], "rms_norm_eps": 1e-06,
        "max_position_embeddings": size["context"], "rope_scaling": None, "rope_theta": size["rope_base"],
        "tie_word_embeddings": False, "torch_dtype": "float32", "vocab_size": size["vocab"],
    }


def write(name, tensors, config=None, shards=1):
    folder = FOLDER / name
    if config is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    if shards == 1:
        storage.write(folder / "model.safetensors", tensors, {"form": name})
        return
    keys = sorted(tensors)
    files = [f"model-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards)]
    for i, file in enumerate(files):
        storage.write(folder / file, {key: tensors[key] for key in keys[i::shards]}, {"form": name})
    index = {
        "metadata": {"total_size": sum(tensor.nbytes for tensor in tensors.values())},
        "weight_map": {key: files[i % shards] for i, key in enumerate(keys)},
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def nanogpt(values, layers):
    """State of a compiled nanoGPT: Linear weights are (out, in), the head is there a second time."""
    names = [(theirs, ours, False) for theirs, ours, _ in gpt2_names(layers) if ours[0] in values]
    tensors = {f"_orig_mod.{name}": value for name, value in under_their_names(names, values).items()}
    tensors["_orig_mod.lm_head.weight"] = values["embed.tokens"]
    return tensors


def ngpt(values, layers):
    """State of NVIDIA/ngpt, of nGPT or of its baseline."""
    names = [("transformer.wte.weight", ["embed.tokens"]), ("lm_head.weight", ["head.weight"])]
    names += [("sz", ["logits.gain"]), ("rmsnorm_f.weight", ["final.gain"])]
    for i in range(layers):
        for theirs, ours in {
            "query.weight": ["attn.q.weight"], "key.weight": ["attn.k.weight"], "value.weight": ["attn.v.weight"],
            "att_c_proj.weight": ["attn.out.weight"], "c_fc.weight": ["ffn.up.weight", "ffn.gate.weight"],
            "mlp_c_proj.weight": ["ffn.down.weight"], "sqk": ["q.gain"], "suv": ["ffn.s_u", "ffn.s_v"],
            "attn_alpha": ["attn_residual.alpha"], "mlp_alpha": ["ffn_residual.alpha"],
            "rmsnorm_att.weight": ["attn_pre.gain"], "rmsnorm_mlp.weight": ["ffn_pre.gain"],
        }.items():
            names.append((f"transformer.h.{i}.{theirs}", [f"blocks.{i}.{name}" for name in ours]))
    return under_their_names([(theirs, ours, False) for theirs, ours in names if ours[0] in values], values)


def main():
    values, size = parameters("transformers/gpt2")
    tensors = under_their_names(gpt2_names(size["layers"]), values)
    write("gpt2", tensors, gpt2_config(size))
    published = {name.removeprefix("transformer."): value for name, value in tensors.items()}
    mask = np.tril(np.ones((1, 1, size["context"], size["context"]), np.float32))
    published.update((f"h.{i}.attn.bias", mask) for i in range(size["layers"]))
    write("gpt2-published", published, gpt2_config(size))

    values, size = parameters("transformers/llama")
    tensors = under_their_names(llama_names(size["layers"], PRE, size["tied"]), values)
    write("llama", tensors, llama_config(size))
    write("llama-sharded", tensors, llama_config(size), shards=3)

    values, size = parameters("schemes/pre-ln")
    write("nanogpt", nanogpt(values, size["layers"]))
    for name, golden in (("ngpt", "schemes/ngpt"), ("ngpt-baseline", "schemes/x-rope-defect")):
        values, size = parameters(golden)
        write(name, ngpt(values, size["layers"]))

    folders = sorted(f"exchange/{path.name}" for path in FOLDER.iterdir())
    storage.record("tools/goldens/exchange.py", folders, {}, None)


main()
