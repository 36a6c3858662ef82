"""Every normalization scheme as a record: which norm sits in which slot, and the rules around the slots."""

from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Norm:
    """What a slot holds. `kind` is a row of the table of primitives."""

    kind: str
    eps: float = 0.0
    gain: bool = True
    bias: bool = False
    full_width: bool = False  # q and k: statistics over all heads at once
    start: float = 1.0  # the value a learned scalar (DYT, DERF, factor) starts from


LN = Norm("ln", eps=1e-5, bias=True)
LN_NO_BIAS = replace(LN, bias=False)
RMS = Norm("rms", eps=1e-6)
RMS_HYBRID = Norm("rms", eps=1e-5)
RMS_WIDE = Norm("rms", eps=1e-6, full_width=True)
RMS1 = Norm("rms1", eps=1e-6)
L2 = Norm("l2", gain=False)
SCALE = Norm("scale")


@dataclass(frozen=True)
class Scheme:
    slots: dict
    block_slots: dict = field(default_factory=dict)  # block index -> the slots of that block, where it differs
    # The model around the slots.
    layers: int = 2
    positions: str = "rope"
    rope: str = "interleaved"  # half_split, nvidia_defect
    rope_base: float = 10000.0
    ffn: str = "swiglu"
    tied: bool = False
    bias: bool = False
    key_bias: bool = True  # counts only where bias is on
    embed_scale: bool = False  # the embedding times the square root of the width
    # Attention.
    qk_after_rope: bool = False
    logits: str = "dot"  # dot, tau (one temperature per head), g (one scalar), ngpt
    s_qk: str = ""  # "", vector, scalar
    attn_cap: float = 0.0
    logn: bool = False
    head_gain: bool = False
    # Residuals.
    attn_residual: str = "add"
    ffn_residual: str = "add"
    alpha: str = ""  # "", vector, scalar, fixed
    alpha_init: float = 0.05
    # Weights, feed-forward scales, head, loss, training.
    weights: str = "free"  # wn, unit, parametrized, rowmax
    s_uv: str = ""
    s_z: str = ""
    angpt_constants: bool = False
    final_cap: float = 0.0
    z_loss: float = 0.0
    decay: str = "matrices"  # none, weight_norm, all_but_embeddings

    def slot(self, block, name):
        """The norm in a slot of a block (block None: the slots around the blocks), or None."""
        return self.block_slots.get(block, self.slots).get(name)


def _pre(norm, **more):
    return {"attn_pre": norm, "ffn_pre": norm, "final": norm, **more}


def _around(norm, **more):
    return _pre(norm, attn_mid=norm, ffn_mid=norm, **more)


GPT2 = dict(positions="learned", ffn="gelu", tied=True, bias=True)
DNT = dict(GPT2, bias=False)

_post_ln = Scheme({"attn_post": LN, "ffn_post": LN}, **GPT2)
_pre_ln = Scheme(_pre(LN), **GPT2)
_pre_rms = Scheme(_pre(RMS))
_ngpt = Scheme(
    {"q": L2, "k": L2}, qk_after_rope=True, logits="ngpt", s_qk="vector", attn_residual="lerp", ffn_residual="lerp",
    alpha="vector", s_uv="vector", s_z="vector", weights="unit", decay="none",
)
_hybrid_block = {"q": RMS_HYBRID, "k": RMS_HYBRID, "v": RMS_HYBRID, "attn_post": RMS_HYBRID}
_hybrid_first = {"attn_pre": RMS_HYBRID, "q": RMS_HYBRID, "k": RMS_HYBRID, "v": RMS_HYBRID, "ffn_pre": RMS_HYBRID}
_hybrid = Scheme({**_hybrid_block, "final": RMS_HYBRID}, tied=True, decay="all_but_embeddings")
_gemma = Scheme(_around(RMS1), ffn="geglu", tied=True, embed_scale=True)


def _dyt(kind, attn, ffn, final):
    def squash(start):
        return Norm(kind, start=start)

    return {"input": Norm("factor"), "attn_pre": squash(attn), "ffn_pre": squash(ffn), "final": squash(final)}


def _with_slots(scheme, **slots):
    return replace(scheme, slots={**scheme.slots, **slots})


SCHEMES = {
    "post-ln": _post_ln,
    "pre-ln": _pre_ln,
    "pre-rms": _pre_rms,
    "dnt-s1": Scheme(_pre(RMS), **DNT),
    "dnt-s2": Scheme(_pre(RMS, q=RMS, k=RMS), **DNT),
    "dnt-s3": Scheme(_pre(RMS, q=RMS, k=RMS, input=RMS), **DNT),
    "dnt-s4": Scheme(_around(RMS, q=RMS, k=RMS, input=RMS), **DNT),
    "dnt-s5": Scheme(_around(RMS, q=RMS, k=RMS, input=RMS, ffn_pre=None), **DNT),
    "ngpt": _ngpt,
    "ngpt-slerp": replace(_ngpt, attn_residual="slerp", ffn_residual="slerp"),
    "ngpt-fixed-alpha": replace(_ngpt, alpha="fixed"),
    "ngpt-no-qk-norm": replace(_ngpt, slots={}),
    "ngpt-scalar-scales": replace(_ngpt, alpha="scalar", s_qk="scalar", s_uv="scalar", s_z="scalar"),
    "ngpt-riemann": replace(_ngpt, attn_residual="riemann", ffn_residual="riemann"),
    "ngpt-parametrized": replace(_ngpt, weights="parametrized"),
    "ngpt-inner": _with_slots(_ngpt, attn_inner=L2, ffn_inner=L2),
    "angpt": replace(
        _ngpt, attn_residual="alerp", ffn_residual="alerp", alpha_init=0.01, s_uv="", angpt_constants=True, weights="rowmax"
    ),
    "weight-norm": replace(_pre_rms, weights="wn", decay="weight_norm"),
    "cosine-attention": replace(_with_slots(_pre_rms, q=L2, k=L2), logits="tau"),
    "embedding-norm": _with_slots(_pre_rms, input=RMS),
    "qknorm": replace(_with_slots(_pre_ln, q=L2, k=L2), logits="g"),
    "qk-layernorm": _with_slots(_pre_ln, q=LN_NO_BIAS, k=LN_NO_BIAS),
    "qkv-norm": _with_slots(_pre_ln, attn_pre=None, q=LN, k=LN, v=LN),
    "rybakov-qk-fc": _with_slots(_pre_ln, q=LN, k=LN, attn_mid=LN, ffn_mid=LN),
    "rybakov-qkv": _with_slots(_pre_ln, attn_pre=None, q=LN, k=LN, v=LN),
    "rybakov-cap": replace(_with_slots(_pre_ln, q=LN, k=LN), attn_cap=50.0),
    "deepnorm": replace(_post_ln, attn_residual="deepnorm", ffn_residual="deepnorm"),
    "normformer": replace(_with_slots(_pre_ln, attn_mid=LN, ffn_inner=LN), head_gain=True, ffn_residual="rscale"),
    "sub-ln": _with_slots(_pre_ln, attn_inner=LN, ffn_inner=LN),
    "mix-ln": replace(_pre_rms, layers=4, block_slots={0: {"attn_post": RMS, "ffn_post": RMS}}),
    "hybridnorm": _hybrid,
    "hybridnorm-star": replace(_hybrid, block_slots={0: _hybrid_first}),
    "sandwich": Scheme(_around(LN), **GPT2),
    "peri-ln": Scheme(_around(RMS, input=RMS), tied=True),
    "gemma2": replace(_gemma, attn_cap=50.0, final_cap=30.0),
    "gemma3": _with_slots(_gemma, q=RMS1, k=RMS1),
    "olmo2": Scheme(
        {"q": RMS_WIDE, "k": RMS_WIDE, "attn_mid": RMS, "ffn_mid": RMS, "final": RMS},
        rope_base=500000.0, z_loss=1e-5, decay="all_but_embeddings",
    ),
    "dyt": Scheme(_dyt("dyt", attn=0.8, ffn=0.2, final=0.2)),
    "derf": Scheme(_dyt("derf", attn=0.5, ffn=0.5, final=0.5)),
    "swin-v2": Scheme(
        {"q": L2, "k": L2, "attn_mid": LN, "ffn_mid": LN, "final": LN}, logits="tau", key_bias=False, **GPT2
    ),
    "no-norm": Scheme({}, **GPT2),
    # Free variants: a scheme above with one thing changed.
    "x-bn-position": replace(_pre_ln, slots=_pre(Norm("bn_position", eps=1e-5, bias=True))),
    "x-bn-prefix": replace(_pre_ln, slots=_pre(Norm("bn_prefix", eps=1e-5, bias=True))),
    "x-logn": replace(_pre_rms, logn=True),
    "x-scale-norm": replace(_pre_rms, slots=_pre(SCALE)),
    "x-relu2": replace(_pre_rms, ffn="relu2"),
    "x-rope-defect": replace(_pre_rms, rope="nvidia_defect"),
}
