"""Which rule every tensor of the optimizer goldens follows, and the hyper-parameters that go into the metadata."""

import optimizers as opt

BETAS = (0.9, 0.95)
EPS = 1e-8
DECAY = 0.1
TENSORS = {"w1": (6, 5), "w2": (5, 6), "e": (7, 5), "g": (5,)}
CLASSES = {"w1": "query", "w2": "attn_out", "e": "embedding", "g": "gain"}
MATRICES = ("w1", "w2", "e")
HIDDEN = ("w1", "w2")
SPHERE_AXIS = {"w1": 1, "w2": 0, "e": 1}


class _Adam:
    """Adam's ratio as the base direction of Hyperball."""

    def __init__(self, betas, eps):
        self.moments = opt.Moments(betas, eps)

    def direction(self, g):
        self.moments.update(g)
        return self.moments.ratio()


def _case(rule, hyper, decay=DECAY, special=None, lr=0.05, lr_factor=None, **more):
    """rule(weight decay) makes the rule of a tensor; special maps some tensors to makers of their own.

    Matrices and the embedding decay, the gain does not. A tensor's learning rate is lr times its lr_factor.
    """
    return dict(
        rule=rule,
        special=special or {},
        lr=lr,
        decay={name: decay if name in MATRICES else 0.0 for name in TENSORS},
        lr_factor={name: (lr_factor or {}).get(name, 1.0) for name in TENSORS},
        hyper=hyper,
        more=more,
    )


def _sgd(decoupled, **options):
    return _case(
        lambda decay: opt.Sgd(0.9, decay, decoupled, **options), {"momentum": 0.9, "decoupled": decoupled, **options}
    )


ADAM = {"betas": BETAS, "eps": EPS}
HALF = {"e": 0.5, "g": 0.5}  # Adam beside a matrix optimizer has a learning rate of its own


def _adamw(decay):
    return opt.AdamW(BETAS, EPS, decay)


def _adam_case(special, note, decay=0.0, **more):
    """AdamW for every tensor that is not special."""
    return _case(_adamw, {**ADAM, "rule": note}, decay=decay, special=special, **more)


def _muon(momentum=0.95, **options):
    special = {name: lambda decay: opt.Muon(momentum, decay, **options) for name in HIDDEN}
    hyper = {"momentum": momentum, "nesterov": True, "method": "ns5", "scale": "original", **options, "adam": ADAM}
    return _case(_adamw, hyper, special=special, lr=0.04, lr_factor=HALF)


def _sphere(make, note, **more):
    special = {name: (lambda decay, axis=axis: make(axis)) for name, axis in SPHERE_AXIS.items()}
    return _adam_case(special, note, lr_factor={"g": 0.5}, unit=True, **more)


def _constrained(kind, note):
    special = {
        name: (lambda decay, axis=axis: opt.Constrained(_adamw(decay), kind, axis)) for name, axis in SPHERE_AXIS.items()
    }
    return _adam_case(special, note)


def _hyperball(base, note):
    special = {name: lambda decay: opt.Hyperball(base().direction) for name in HIDDEN}
    return _adam_case(special, note, lr_factor=HALF)


CASES = {
    "sgdw": _sgd(True),
    "sgdw-nesterov": _sgd(True, nesterov=True),
    "sgdw-caution": _sgd(True, caution=True),
    "sgdw-damped": _sgd(True, dampening=0.2),
    "sgd": _sgd(False),
    "adamw": _case(_adamw, ADAM),
    "adam": _case(lambda decay: opt.AdamW(BETAS, EPS, decay, coupled=True), {**ADAM, "decoupled": False}),
    "gated_adamw": _case(
        lambda decay: opt.GatedAdamW(BETAS, EPS, 1e-3, 0.5, decay),
        {"betas": BETAS, "eps_num": EPS, "eps_gate": 1e-3, "a": 0.5, "kappa": 1.0},
    ),
    "lion": _case(lambda decay: opt.Lion((0.9, 0.99), decay), {"betas": (0.9, 0.99)}, lr=0.01),
    "adagrad": _case(lambda decay: opt.Adagrad(1e-10), {"eps": 1e-10, "lr_decay": 0.0}, decay=0.0),
    "adagrad-decay": _case(
        lambda decay: opt.Adagrad(1e-10, decay, 0.1), {"eps": 1e-10, "lr_decay": 0.1, "decoupled": False}
    ),
    "rmsprop": _case(
        lambda decay: opt.RmsProp(0.99, EPS, decay),
        {"alpha": 0.99, "eps": EPS, "momentum": 0.0, "decoupled": False},
        lr=0.01,
    ),
    "rmsprop-momentum": _case(
        lambda decay: opt.RmsProp(0.99, EPS, decay, 0.9),
        {"alpha": 0.99, "eps": EPS, "momentum": 0.9, "decoupled": False},
        lr=0.01,
    ),
    "signsgd": _case(lambda decay: opt.SignSgd(decay), {"momentum": 0.0}, lr=0.01),
    "signsgd-momentum": _case(lambda decay: opt.SignSgd(decay, 0.9), {"momentum": 0.9}, lr=0.01),
    "lars": _case(
        lambda decay: opt.Lars(0.9, decay, 0.1, 1e-8),
        {"momentum": 0.9, "trust": 0.1, "eps": 1e-8, "formula": opt.Lars.FORMULA},
    ),
    "muon": _muon(),
    "muon-match": _muon(scale="match_adamw_rms"),
    "muon-polar": _muon(method="polar"),
    "muon-cautious": _muon(cautious=True),
    "normuon": _muon(second_moment=0.95),
    "riemannian_adam-projection": _sphere(
        lambda axis: opt.RiemannianAdam(BETAS, EPS, axis, "projection"), "4.4, retraction and transport by projection"
    ),
    "riemannian_adam-parallel": _sphere(
        lambda axis: opt.RiemannianAdam(BETAS, EPS, axis, "parallel"), "4.4, exact geodesic and parallel transport"
    ),
    "tangent_adam": _sphere(
        lambda axis: opt.SphereAdam(BETAS, EPS, axis, "gradient"), "tangent gradients into Adam, step, UNIT"
    ),
    "oblique_adam": _sphere(
        lambda axis: opt.SphereAdam(BETAS, EPS, axis, "ratio"), "Adam's ratio made tangent, step, UNIT"
    ),
    "ngpt-adam": _sphere(lambda axis: opt.SphereAdam(BETAS, EPS, axis), "Adam on raw gradients, then UNIT"),
    "adamh": _hyperball(lambda: _Adam(BETAS, EPS), "w1, w2: Hyperball around Adam's ratio; e, g: Adam"),
    "muonh": _hyperball(
        lambda: opt.Muon(0.95, 0.0), "w1, w2: Hyperball around Muon (ns5, momentum 0.95, Nesterov); e, g: Adam"
    ),
    "adamw-lazy": _adam_case(
        {"e": lambda decay: opt.LazyAdamW(BETAS, EPS, decay)},
        "rows of e without gradient keep weights and moments, and do not decay; t counts all steps",
        decay=DECAY,
    ),
    "adamw-rowmax": _constrained(
        "rowmax", "AdamW, then vectors longer than 1 are scaled to 1: rows of w1, e, columns of w2"
    ),
    "adamw-frobenius": _constrained("frobenius", "AdamW, then w1, w2, e are scaled to their first Frobenius norm"),
}
