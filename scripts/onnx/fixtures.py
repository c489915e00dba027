# SPDX-License-Identifier: MIT
"""Make the small files of tests/fixtures/onnx: what onnx itself writes, for specs that run without
Python.  `make onnx` runs it and says when a file has become another one.

    fixtures.py FOLDER
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# Every element type of a tensor, in raw_data and in lists of numbers.
TYPES = ["FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "BOOL", "FLOAT16", "DOUBLE",
         "UINT32", "UINT64", "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "UINT4", "INT4",
         "COMPLEX64", "COMPLEX128", "FLOAT8E4M3FNUZ", "FLOAT4E2M1"]
SIGNED = {"FLOAT", "INT8", "INT16", "INT32", "INT64", "FLOAT16", "DOUBLE", "BFLOAT16",
          "FLOAT8E4M3FN", "FLOAT8E5M2", "INT4", "FLOAT4E2M1"}


def tensors():
    out = []
    for name in TYPES:
        kind = getattr(TensorProto, name)
        values = [0, 1, -2 if name in SIGNED else 2, 3, 6]
        if name == "BOOL":
            values = [0, 1, 1, 0, 1]
        listed = helper.make_tensor(name + "_list", kind, [5], values)
        array = numpy_helper.to_array(listed)
        out.append(listed)
        raw = numpy_helper.from_array(array, name + "_raw")
        assert raw.data_type == kind, name
        out.append(raw)
    out.append(helper.make_tensor("strings", TensorProto.STRING, [2], [b"a", b"bc"]))
    out.append(helper.make_tensor("scalar", TensorProto.FLOAT, [], [0.5]))
    out.append(helper.make_tensor("nothing", TensorProto.FLOAT, [0, 3], []))
    return out


def every():
    """One of each that a file may hold: attributes, types, a function, a graph in a graph."""
    then = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["positive"])], "then", [],
        [helper.make_tensor_value_info("positive", TensorProto.FLOAT, None)])
    other = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["negative"])], "else", [],
        [helper.make_tensor_value_info("negative", TensorProto.FLOAT, ["N", 3])])
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("sparse", TensorProto.FLOAT, [2], [1.0, 2.0]),
        helper.make_tensor("", TensorProto.INT64, [2], [1, 4]), [2, 3])
    kinds = helper.make_node(
        "Kinds", ["x", "", "FLOAT_raw"], ["k"], name="kinds", domain="test", a_float=0.25, an_int=-7,
        a_string="text", a_tensor=helper.make_tensor("t", TensorProto.INT64, [2], [2, -1]),
        floats=[1.5, -2.0], ints=[0, -1, 2**40], strings=["a", "", "c"],
        tensors=[helper.make_tensor("u", TensorProto.FLOAT, [1], [3.0])], graphs=[then], big=2**62,
        sparse=sparse)
    twice = helper.make_function(
        "test", "Twice", ["a"], ["b"],
        [helper.make_node("Add", ["a", "a"], ["c"]), scaled()], [helper.make_opsetid("", 17)],
        ["scale"])
    nodes = [helper.make_node("If", ["condition"], ["y"], then_branch=then, else_branch=other),
             kinds, helper.make_node("Twice", ["y"], ["z"], domain="test", scale=2.0)]
    graph = helper.make_graph(
        nodes, "every",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3]),
         helper.make_tensor_value_info("condition", TensorProto.BOOL, []),
         helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [2]),
         helper.make_value_info("o", helper.make_optional_type_proto(
             helper.make_tensor_type_proto(TensorProto.INT64, [1]))),
         helper.make_value_info("m", helper.make_map_type_proto(
             TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, [])))],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["N", 3])],
        tensors(), "every field",
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 3])],
        [sparse])
    model = helper.make_model(graph, producer_name="fixtures", producer_version="1", ir_version=10,
                              functions=[twice],
                              opset_imports=[helper.make_opsetid("", 17),
                                             helper.make_opsetid("test", 1)])
    helper.set_model_props(model, {"key": "value", "other": ""})
    return model


def scaled():
    node = helper.make_node("Scale", ["c"], ["b"], domain="test")
    node.attribute.append(helper.make_attribute_ref("scale", onnx.AttributeProto.FLOAT))
    node.attribute[0].ref_attr_name = "scale"
    return node


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "every.onnx").write_bytes(every().SerializeToString(deterministic=True))
    tensor = numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(2, 3), "six")
    (folder / "six.pb").write_bytes(tensor.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
