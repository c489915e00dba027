# SPDX-License-Identifier: MIT
"""ONNX files as PyTorch modules, for torch_worker.py: the operators of the networks that are compared.

module(path, sizes, seed) gives a module and its inputs, drawn from a standard normal distribution;
sizes that the file leaves open are 1 unless sizes, a dict, names them.  Shapes, axes and positions
have to be constants of the file.  Another operator is an error that names it.
"""
import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper


def pads_of(a):
    """Padding of both sides where they are alike, and else what F.pad takes."""
    pads = a.get("pads", [0, 0, 0, 0])
    n = len(pads) // 2
    if pads[:n] == pads[n:]:
        return pads[:n], None
    return [0] * n, [pads[i + side * n] for i in reversed(range(n)) for side in (0, 1)]


def conv(x, w, b=None, *, a):
    own, more = pads_of(a)
    x = F.pad(x, more) if more else x
    return F.conv2d(x, w, b, a.get("strides", 1), own, a.get("dilations", 1), a.get("group", 1))


def max_pool(x, *, a):
    own, more = pads_of(a)
    x = F.pad(x, more, value=float("-inf")) if more else x
    return F.max_pool2d(x, a["kernel_shape"], a.get("strides", 1), own,
                        ceil_mode=bool(a.get("ceil_mode", 0)))


def avg_pool(x, *, a):
    own, more = pads_of(a)
    counts = bool(a.get("count_include_pad", 0))
    if not more:
        return F.avg_pool2d(x, a["kernel_shape"], a.get("strides", 1), own,
                            count_include_pad=counts)
    size = a["kernel_shape"]
    sums = F.avg_pool2d(F.pad(x, more), size, a.get("strides", 1))
    if counts:
        return sums
    ones = F.avg_pool2d(F.pad(torch.ones_like(x[:1, :1]), more), size, a.get("strides", 1))
    return sums / ones


def batch_norm(x, scale, bias, mean, var, *, a):
    return F.batch_norm(x, mean, var, scale, bias, False, 0.0, a.get("epsilon", 1e-5))


def gemm(x, w, b=None, *, a):
    if a.get("transA", 0):
        x = x.t()
    if a.get("alpha", 1) != 1 or a.get("beta", 1) != 1:
        raise ValueError("Gemm with alpha or beta")
    return F.linear(x, w if a.get("transB", 0) else w.t(), b)


def layer_norm(x, scale, bias=None, *, a):
    axis = a.get("axis", -1) % x.ndim
    return F.layer_norm(x, x.shape[axis:], scale, bias, a.get("epsilon", 1e-5))


def softmax(x, *, a):
    return torch.softmax(x, a.get("axis", -1))


def total(*xs, a):
    result = xs[0]
    for x in xs[1:]:
        result = result + x
    return result


def reshape(x, shape, *, a):
    return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(shape)])


def gather(x, index, *, a):
    axis = a.get("axis", 0)
    if isinstance(index, int):
        return x.select(axis, index)
    return torch.index_select(x, axis, torch.tensor(index))


OPERATORS = {
    "Conv": conv, "MaxPool": max_pool, "AveragePool": avg_pool, "BatchNormalization": batch_norm,
    "Gemm": gemm, "LayerNormalization": layer_norm, "Softmax": softmax, "Sum": total,
    "Reshape": reshape, "Gather": gather,
    "Relu": lambda x, a: F.relu(x), "Erf": lambda x, a: torch.erf(x),
    "Add": lambda x, y, a: x + y, "Mul": lambda x, y, a: x * y, "Div": lambda x, y, a: x / y,
    "MatMul": lambda x, y, a: x @ y, "Dropout": lambda x, *rest, a: x,
    "Transpose": lambda x, a: x.permute(a["perm"]),
    "Concat": lambda *xs, a: torch.cat(xs, a["axis"]),
    "GlobalAveragePool": lambda x, a: x.mean((2, 3), keepdim=True),
}
TOLD = {"Reshape": (1,), "Gather": (1,)}  # inputs that are numbers, not tensors


class Net(torch.nn.Module):
    def __init__(self, graph):
        super().__init__()
        constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        self.steps, self.names = [], {}
        unknown = sorted({n.op_type for n in graph.node} - set(OPERATORS) - {"Constant"})
        if unknown:
            raise ValueError("operators that are not written here: " + ", ".join(unknown))
        for node in graph.node:
            a = {x.name: onnx.helper.get_attribute_value(x) for x in node.attribute}
            if node.op_type == "Constant":
                constants[node.output[0]] = numpy_helper.to_array(a["value"])
                continue
            inputs = []
            for i, name in enumerate(node.input):
                if i in TOLD.get(node.op_type, ()):
                    inputs.append((False, constants[name].tolist()))
                elif name in constants:
                    inputs.append((True, self.hold(name, constants[name])))
                else:
                    inputs.append((True, name))
            self.steps.append((OPERATORS[node.op_type], inputs, node.output[0], a))
        self.inputs = [x.name for x in graph.input if x.name not in constants]
        self.outputs = [x.name for x in graph.output]

    def hold(self, name, array):
        if name not in self.names:
            self.names[name] = f"c{len(self.names)}"
            self.register_buffer(self.names[name], torch.from_numpy(array.copy()))
        return self.names[name]

    def forward(self, *xs):
        values = dict(zip(self.inputs, xs))
        values.update((field, getattr(self, field)) for field in self.names.values())
        for f, inputs, output, a in self.steps:
            values[output] = f(*[values[x] if named else x for named, x in inputs], a=a)
        return tuple(values[name] for name in self.outputs)


def module(path, sizes, seed):
    graph = onnx.load(path).graph
    net = Net(graph)
    draw, xs = np.random.default_rng(seed), []
    for x in graph.input:
        if x.name in net.inputs:
            shape = [d.dim_value or sizes.get(d.dim_param, 1)
                     for d in x.type.tensor_type.shape.dim]
            xs.append(torch.from_numpy(draw.standard_normal(shape).astype(np.float32)))
    return net, tuple(xs)
