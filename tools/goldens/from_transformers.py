#!/usr/bin/env python3
"""Goldens from Hugging Face models, for a machine with a recent PyTorch and transformers; writes tests/goldens/transformers.

Tiny models get random values for every parameter; logits, loss and gradients of one batch are stored under Norma's names.
Each model is also compared with model.py; where they disagree nothing is written and the exit status is 1.
"""

import contextlib
import itertools
import sys
from dataclasses import replace

import torch

import make
import model
import parameters
import storage
from schemes import SCHEMES

SIZE = make.SIZE
AGREEMENT = 1e-4  # logits, relative: far above float32 noise, far below any difference of formula


def gpt2_names(layers):
    """(their name, our names side by side, whether theirs is transposed); Conv1D keeps [in, out]."""
    yield "transformer.wte.weight", ["embed.tokens"], False
    yield "transformer.wpe.weight", ["embed.positions"], False
    for i in range(layers):
        theirs, ours = f"transformer.h.{i}.", f"blocks.{i}."
        for norm, slot in (("ln_1", "attn_pre"), ("ln_2", "ffn_pre")):
            yield f"{theirs}{norm}.weight", [f"{ours}{slot}.gain"], False
            yield f"{theirs}{norm}.bias", [f"{ours}{slot}.bias"], False
        for layer, parts in (
            ("attn.c_attn", ["attn.q", "attn.k", "attn.v"]),
            ("attn.c_proj", ["attn.out"]),
            ("mlp.c_fc", ["ffn.up"]),
            ("mlp.c_proj", ["ffn.down"]),
        ):
            yield f"{theirs}{layer}.weight", [f"{ours}{part}.weight" for part in parts], True
            yield f"{theirs}{layer}.bias", [f"{ours}{part}.bias" for part in parts], False
    yield "transformer.ln_f.weight", ["final.gain"], False
    yield "transformer.ln_f.bias", ["final.bias"], False


def llama_names(layers, slots, tied):
    """Llama and its relatives; slots maps their norms to our slots."""
    linear = {
        "self_attn.q_proj": "attn.q", "self_attn.k_proj": "attn.k", "self_attn.v_proj": "attn.v",
        "self_attn.o_proj": "attn.out", "mlp.up_proj": "ffn.up", "mlp.gate_proj": "ffn.gate", "mlp.down_proj": "ffn.down",
    }
    yield "model.embed_tokens.weight", ["embed.tokens"], False
    for i in range(layers):
        for theirs, ours in linear.items():
            yield f"model.layers.{i}.{theirs}.weight", [f"blocks.{i}.{ours}.weight"], False
        for theirs, slot in slots.items():
            yield f"model.layers.{i}.{theirs}.weight", [f"blocks.{i}.{slot}.gain"], False
    yield "model.norm.weight", ["final.gain"], False
    if not tied:
        yield "lm_head.weight", ["head.weight"], False


PRE = {"input_layernorm": "attn_pre", "post_attention_layernorm": "ffn_pre"}
POST = {"post_attention_layernorm": "attn_mid", "post_feedforward_layernorm": "ffn_mid"}
AROUND = {"input_layernorm": "attn_pre", "pre_feedforward_layernorm": "ffn_pre", **POST}
QK = {"self_attn.q_norm": "q", "self_attn.k_norm": "k"}
GEMMA = dict(
    hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=SIZE.head_width, sliding_window=64, tie_word_embeddings=True
)

# name: (configuration class, model class, scheme, their norms, options)
MODELS = {
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", "pre-ln", None, {}),
    "llama": ("LlamaConfig", "LlamaForCausalLM", "pre-rms", PRE, dict(tie_word_embeddings=False)),
    "olmo2": ("Olmo2Config", "Olmo2ForCausalLM", "olmo2", {**POST, **QK}, dict(tie_word_embeddings=False)),
    "gemma2": (
        "Gemma2Config", "Gemma2ForCausalLM", "gemma2", AROUND,
        dict(GEMMA, attn_logit_softcapping=50.0, final_logit_softcapping=30.0),
    ),
    "gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM", "gemma3", {**AROUND, **QK}, GEMMA),
}


def scheme_and_size(name):
    scheme = SCHEMES[MODELS[name][2]]
    if name == "gpt2":
        return replace(scheme, ffn="gelu_tanh"), replace(SIZE, kv_heads=SIZE.heads)
    return replace(scheme, rope="half_split"), SIZE


def names_of(name, scheme):
    if name == "gpt2":
        return list(gpt2_names(scheme.layers))
    return list(llama_names(scheme.layers, MODELS[name][3], scheme.tied))


def rope_options(name, base):
    """The base of the rotation has been spelt in several ways; the comparison with model.py finds the right one."""
    if name == "gpt2":
        return [{}]
    entry = {"rope_type": "default", "rope_theta": base}
    by_layer = {"full_attention": entry, "sliding_attention": entry}
    old = {"rope_theta": base, **({"rope_local_base_freq": base} if name == "gemma3" else {})}
    return [old, {"rope_parameters": by_layer if name == "gemma3" else entry}]


def configuration(kind, name, scheme, size, options):
    # No padding token: its row of the table would get no gradient.
    common = dict(vocab_size=size.vocab, pad_token_id=None, bos_token_id=None, eos_token_id=None, use_cache=False)
    if name == "gpt2":
        return kind(
            n_positions=size.context, n_embd=size.width, n_layer=scheme.layers, n_head=size.heads, n_inner=size.ffn_width,
            activation_function="gelu_new", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, layer_norm_epsilon=1e-5,
            **common,
        )
    return kind(
        hidden_size=size.width, intermediate_size=size.ffn_width, num_hidden_layers=scheme.layers,
        num_attention_heads=size.heads, num_key_value_heads=size.kv_heads, head_dim=size.head_width,
        max_position_embeddings=size.context, rms_norm_eps=1e-6, attention_dropout=0.0, attention_bias=False,
        **MODELS[name][4], **options, **common,
    )


@contextlib.contextmanager
def widened(active):
    """The models cast to float32 inside norms, softmax and rotation; here that name means float64."""
    kept = torch.float32, torch.float, torch.Tensor.float
    if active:
        torch.set_default_dtype(torch.float64)
        torch.float32 = torch.float = torch.float64
        torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = kept
        torch.set_default_dtype(kept[0])


def load(network, names, values):
    theirs = dict(network.named_parameters())
    if set(theirs) != {name for name, _, _ in names}:
        raise KeyError(f"parameters that one side lacks: {sorted(set(theirs) ^ {name for name, _, _ in names})}")
    with torch.no_grad():
        for name, ours, transposed in names:
            joined = torch.cat([values[key] for key in ours])
            theirs[name].copy_(joined.T if transposed else joined)


def gradients_of(network, names, values):
    theirs = dict(network.named_parameters())
    found = {}
    for name, ours, transposed in names:
        gradient = theirs[name].grad
        parts = (gradient.T if transposed else gradient).split([values[key].shape[0] for key in ours])
        found.update((key, part.detach().double().contiguous()) for key, part in zip(ours, parts))
    return found


def evaluate(name, scheme, size, values, ids, targets, wide, options):
    """Logits, token losses, loss and gradients from the foreign model."""
    import transformers

    names = names_of(name, scheme)
    config_kind, model_kind = (getattr(transformers, kind) for kind in MODELS[name][:2])  # imported before widened()
    with widened(wide):
        config = configuration(config_kind, name, scheme, size, options)
        config._attn_implementation = "eager"
        network = model_kind(config).double().eval()
        network.get_input_embeddings().padding_idx = None
        load(network, names, values)
        z = network(input_ids=ids).logits.double()
        losses = model.token_losses(scheme, z, targets)
        loss = losses.sum() / (targets != model.IGNORED).sum()
        loss.backward()
        return z.detach(), losses.detach(), loss.detach(), gradients_of(network, names, values)


def best(name, scheme, size, values, ids, targets):
    """The attempt that comes nearest to model.py: (gap, whether all was float64, its results)."""
    want = model.logits(scheme, size, values, ids)
    found = []
    for wide, options in itertools.product((True, False), rope_options(name, scheme.rope_base)):
        try:
            results = evaluate(name, scheme, size, values, ids, targets, wide, options)
        except Exception as error:  # another version of the library: say so and try the next form
            print(f"  {name}, float64 {wide}, {options}: {type(error).__name__}: {error}")
            continue
        found.append((float((results[0] - want).abs().max() / want.abs().max()), wide, results))
    return min(found, key=lambda attempt: attempt[0], default=None)


def write(name, scheme, size, values, batch, attempt):
    (ids, targets), (gap, wide, (z, losses, loss, gradients)) = batch, attempt
    tensors = {"ids": ids.int(), "targets": targets.int(), "logits": z, "token_losses": losses, "loss": loss[None]}
    for key in values:
        tensors["param/" + key] = values[key].float()
        tensors["grad/" + key] = gradients[key]
    metadata = make.describe(MODELS[name][2], scheme, size, values, gradients)
    metadata.update(model=name, precision="float64" if wide else "float64, with norms, softmax and rotation in float32")
    path = storage.GOLDENS / "transformers" / f"{name}.safetensors"
    storage.write(path, {key: t.numpy() for key, t in tensors.items()}, metadata)
    print(f"{name:8} loss {float(loss):.6f}, logits differ from model.py by {gap:.1e}, {metadata['precision']}")


def main():
    import transformers

    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    torch.set_num_threads(1)
    failed = []
    for name in MODELS:
        scheme, size = scheme_and_size(name)
        rng = make.generator("transformers-" + name)
        values, batch = parameters.random(scheme, size, rng), make.batch(rng)
        attempt = best(name, scheme, size, values, *batch)
        if attempt is None or not attempt[0] < AGREEMENT:
            failed.append(name)
            why = "no form of the model could be run" if attempt is None else f"logits differ by {attempt[0]:.1e}"
            print(f"{name:8} not written: {why}")
            continue
        write(name, scheme, size, values, batch, attempt)
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    storage.record("tools/goldens/from_transformers.py", ["transformers"], versions, make.SEED)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
