"""Every optimizer as a rule for one tensor: step(w, g, lr) returns the new w. State lives in the rule, t counts from 1."""

import torch

from parameters import rowmax
from primitives import l2


class Sgd:
    """PyTorch's coupled form, or SGDW (decoupled): decay first, then the step. The first buffer is the gradient."""

    def __init__(self, momentum, weight_decay, decoupled, nesterov=False, dampening=0.0, caution=False):
        self.momentum, self.weight_decay, self.decoupled = momentum, weight_decay, decoupled
        self.nesterov, self.dampening, self.caution = nesterov, dampening, caution
        self.buffer = None

    def step(self, w, g, lr):
        if self.decoupled:
            w = w * (1 - lr * self.weight_decay)
        else:
            g = g + self.weight_decay * w
        self.buffer = g if self.buffer is None else self.momentum * self.buffer + (1 - self.dampening) * g
        update = g + self.momentum * self.buffer if self.nesterov else self.buffer
        if self.caution:
            mask = (update * g > 0).to(w.dtype)
            update = update * mask / mask.mean().clamp(min=1e-3)
        return w - lr * update


class Moments:
    """Adam's two averages and their bias-corrected ratio."""

    def __init__(self, betas, eps):
        self.betas, self.eps, self.t, self.m, self.v = betas, eps, 0, 0.0, 0.0

    def update(self, g):
        self.t += 1
        self.m = self.betas[0] * self.m + (1 - self.betas[0]) * g
        self.v = self.betas[1] * self.v + (1 - self.betas[1]) * g * g

    def corrected(self):
        return self.m / (1 - self.betas[0] ** self.t), torch.sqrt(self.v / (1 - self.betas[1] ** self.t))

    def ratio(self):
        m, root = self.corrected()
        return m / (root + self.eps)


class AdamW:
    """Decoupled decay; `coupled` adds the decay to the gradient instead (Adam)."""

    def __init__(self, betas, eps, weight_decay=0.0, coupled=False):
        self.moments, self.weight_decay, self.coupled = Moments(betas, eps), weight_decay, coupled

    def step(self, w, g, lr):
        if self.coupled:
            g = g + self.weight_decay * w
        else:
            w = w * (1 - lr * self.weight_decay)
        self.moments.update(g)
        return w - lr * self.moments.ratio()


class LazyAdamW:
    """A row whose gradient is zero keeps its weights and moments untouched; t counts all steps."""

    def __init__(self, betas, eps, weight_decay):
        self.betas, self.eps, self.weight_decay, self.t, self.m, self.v = betas, eps, weight_decay, 0, None, None

    def step(self, w, g, lr):
        if self.m is None:
            self.m, self.v = torch.zeros_like(w), torch.zeros_like(w)
        self.t += 1
        touched = (g != 0).any(1, keepdim=True)
        b1, b2 = self.betas
        self.m = torch.where(touched, b1 * self.m + (1 - b1) * g, self.m)
        self.v = torch.where(touched, b2 * self.v + (1 - b2) * g * g, self.v)
        ratio = (self.m / (1 - b1**self.t)) / (torch.sqrt(self.v / (1 - b2**self.t)) + self.eps)
        return torch.where(touched, w * (1 - lr * self.weight_decay) - lr * ratio, w)


class GatedAdamW:
    def __init__(self, betas, eps_num, eps_gate, power, weight_decay, kappa=1.0):
        self.moments, self.eps_gate, self.power = Moments(betas, eps_num), eps_gate, power
        self.weight_decay, self.kappa = weight_decay, kappa

    def step(self, w, g, lr):
        self.moments.update(g)
        m, root = self.moments.corrected()
        size = root + self.moments.eps
        gate = size**self.power / (size**self.power + self.eps_gate**self.power)
        return w - lr * (self.kappa * gate * m / size + self.weight_decay * w)


class Lion:
    def __init__(self, betas, weight_decay):
        self.betas, self.weight_decay, self.m = betas, weight_decay, 0.0

    def step(self, w, g, lr):
        direction = torch.sign(self.betas[0] * self.m + (1 - self.betas[0]) * g)
        self.m = self.betas[1] * self.m + (1 - self.betas[1]) * g
        return w * (1 - lr * self.weight_decay) - lr * direction


class Adagrad:
    def __init__(self, eps, weight_decay=0.0, lr_decay=0.0):
        self.eps, self.weight_decay, self.lr_decay, self.t, self.sum = eps, weight_decay, lr_decay, 0, 0.0

    def step(self, w, g, lr):
        self.t += 1
        g = g + self.weight_decay * w
        self.sum = self.sum + g * g
        return w - lr / (1 + (self.t - 1) * self.lr_decay) * g / (torch.sqrt(self.sum) + self.eps)


class RmsProp:
    """PyTorch's form: coupled decay, no centring, the momentum buffer collects the divided gradients."""

    def __init__(self, alpha, eps, weight_decay, momentum=0.0):
        self.alpha, self.eps, self.weight_decay, self.momentum = alpha, eps, weight_decay, momentum
        self.v, self.buffer = 0.0, 0.0

    def step(self, w, g, lr):
        g = g + self.weight_decay * w
        self.v = self.alpha * self.v + (1 - self.alpha) * g * g
        self.buffer = self.momentum * self.buffer + g / (torch.sqrt(self.v) + self.eps)
        return w - lr * self.buffer


class SignSgd:
    """The sign of the momentum average (momentum 0: of the gradient), decoupled decay, sign(0) = 0."""

    def __init__(self, weight_decay, momentum=0.0):
        self.weight_decay, self.momentum, self.m = weight_decay, momentum, 0.0

    def step(self, w, g, lr):
        self.m = self.momentum * self.m + (1 - self.momentum) * g
        return w * (1 - lr * self.weight_decay) - lr * torch.sign(self.m)


class Lars:
    """Layer-wise trust for matrices; a 1-D tensor has trust 1 and no decay."""

    FORMULA = (
        "r = trust*|w|/(|g| + wd*|w| + eps) for tensors of 2 or more dimensions, r = 1 and wd = 0 for the others; "
        "b = momentum*b + r*(g + wd*w), b starts at 0; w -= lr*b (the learning rate stays outside of b, as in timm); "
        "norms are over the whole tensor"
    )

    def __init__(self, momentum, weight_decay, trust, eps):
        self.momentum, self.weight_decay, self.trust, self.eps, self.buffer = momentum, weight_decay, trust, eps, 0.0

    def step(self, w, g, lr):
        rate = 1.0
        if w.dim() >= 2:
            rate = self.trust * w.norm() / (g.norm() + self.weight_decay * w.norm() + self.eps)
        self.buffer = self.momentum * self.buffer + rate * (g + self.weight_decay * w)
        return w - lr * self.buffer


NS5 = [(3.4445, -4.7750, 2.0315)] * 5
POLAR = [
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
]


def orthogonalize(x, method="ns5"):
    """All singular values near 1. ns5 divides by |x| + 1e-7, polar by 1.02*|x| + 1e-6 (Frobenius norms)."""
    if x.shape[0] > x.shape[1]:
        return orthogonalize(x.T, method).T
    x = x / (x.norm() + 1e-7) if method == "ns5" else x / (1.02 * x.norm() + 1e-6)
    for a, b, c in NS5 if method == "ns5" else POLAR:
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    return x


class Muon:
    def __init__(self, momentum, weight_decay, method="ns5", scale="original", second_moment=0.0, cautious=False):
        self.momentum, self.weight_decay, self.method, self.scale = momentum, weight_decay, method, scale
        self.second_moment, self.cautious, self.m, self.v = second_moment, cautious, 0.0, 0.0

    def direction(self, g):
        self.m = self.momentum * self.m + (1 - self.momentum) * g
        o = orthogonalize((1 - self.momentum) * g + self.momentum * self.m, self.method)
        return self._per_neuron(o) if self.second_moment else o

    def _per_neuron(self, o):
        """NorMuon: one second moment per row (per column if there are more columns), the Frobenius norm stays."""
        rows, columns = o.shape
        mean = (o * o).mean(0 if columns > rows else 1, keepdim=True)
        self.v = self.second_moment * self.v + (1 - self.second_moment) * mean
        balanced = o / torch.sqrt(self.v.clamp(min=1e-10))
        return balanced * (o.norm() / balanced.norm())

    def step(self, w, g, lr):
        o = self.direction(g)
        rows, columns = o.shape
        o = o * (max(1, rows / columns) ** 0.5 if self.scale == "original" else 0.2 * max(rows, columns) ** 0.5)
        decayed = (o * w >= 0).to(w.dtype) if self.cautious else 1.0
        return w - lr * self.weight_decay * decayed * w - lr * o


def tangent(w, g, axis):
    return g - w * (w * g).sum(axis, keepdim=True)


class RiemannianAdam:
    """Adam on a product of spheres (the vectors along `axis`) with one second moment per sphere."""

    def __init__(self, betas, eps, axis, transport):
        self.betas, self.eps, self.axis, self.transport = betas, eps, axis, transport
        self.t, self.m, self.v = 0, 0.0, 0.0

    def step(self, w, g, lr):
        self.t += 1
        w = w / w.norm(dim=self.axis, keepdim=True)
        r = tangent(w, g, self.axis)
        self.m = self.betas[0] * self.m + (1 - self.betas[0]) * r
        self.v = self.betas[1] * self.v + (1 - self.betas[1]) * (r * r).sum(self.axis, keepdim=True)
        root = torch.sqrt(self.v / (1 - self.betas[1] ** self.t))
        delta = self.m / (1 - self.betas[0] ** self.t) / (root + self.eps)
        if self.transport == "projection":
            moved = w - lr * delta
            moved = moved / moved.norm(dim=self.axis, keepdim=True)
            self.m = tangent(moved, self.m, self.axis)
            return moved
        length = delta.norm(dim=self.axis, keepdim=True)
        heading = -delta / torch.where(length > 0, length, torch.ones_like(length))
        cos, sin = torch.cos(lr * length), torch.sin(lr * length)
        along = (heading * self.m).sum(self.axis, keepdim=True)
        self.m = self.m - along * heading + along * (cos * heading - sin * w)
        return cos * w + sin * heading


class SphereAdam:
    """Elementwise Adam, then back to the unit sphere; what is made tangent: nothing, the gradient, or the ratio."""

    def __init__(self, betas, eps, axis, project=""):
        self.moments, self.axis, self.project = Moments(betas, eps), axis, project

    def step(self, w, g, lr):
        self.moments.update(tangent(w, g, self.axis) if self.project == "gradient" else g)
        ratio = self.moments.ratio()
        if self.project == "ratio":
            ratio = tangent(w, ratio, self.axis)
        return l2(w - lr * ratio, self.axis)


class Hyperball:
    """A fixed Frobenius norm and a relative step of exactly lr in the direction of the base optimizer."""

    def __init__(self, direction):
        self.direction, self.radius = direction, None

    def step(self, w, g, lr):
        if self.radius is None:
            self.radius = w.norm()
        u = self.direction(g)
        moved = w - lr * self.radius * u / u.norm()
        return self.radius * moved / moved.norm()


class Constrained:
    """Another rule, followed by a constraint on the weights: rowmax along `axis`, or the first Frobenius norm."""

    def __init__(self, rule, kind, axis):
        self.rule, self.kind, self.axis, self.radius = rule, kind, axis, None

    def step(self, w, g, lr):
        if self.radius is None:
            self.radius = w.norm()
        w = self.rule.step(w, g, lr)
        return rowmax(w, self.axis) if self.kind == "rowmax" else w * (self.radius / w.norm())
