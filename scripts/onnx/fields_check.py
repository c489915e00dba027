# SPDX-License-Identifier: MIT
"""Compare the table of ONNX's messages in core/ridge/onnx.h with what onnx itself says.

    fields_check.py core/ridge/onnx.h
"""
import re
import sys

import onnx
from google.protobuf.descriptor import FieldDescriptor as F

MESSAGES = {
    "model": onnx.ModelProto, "graph": onnx.GraphProto, "node": onnx.NodeProto,
    "attribute": onnx.AttributeProto, "value": onnx.ValueInfoProto, "type": onnx.TypeProto,
    "tensor_type": onnx.TypeProto.Tensor, "sequence_type": onnx.TypeProto.Sequence,
    "map_type": onnx.TypeProto.Map, "optional_type": onnx.TypeProto.Optional,
    "sparse_type": onnx.TypeProto.SparseTensor, "opaque_type": onnx.TypeProto.Opaque,
    "shape": onnx.TensorShapeProto, "dimension": onnx.TensorShapeProto.Dimension,
    "tensor": onnx.TensorProto, "segment": onnx.TensorProto.Segment,
    "sparse_tensor": onnx.SparseTensorProto, "entry": onnx.StringStringEntryProto,
    "opset": onnx.OperatorSetIdProto, "function": onnx.FunctionProto}
KINDS = {F.TYPE_STRING: "TEXT", F.TYPE_BYTES: "TEXT", F.TYPE_FLOAT: "FLOAT",
         F.TYPE_DOUBLE: "DOUBLE", F.TYPE_MESSAGE: "MESSAGE", F.TYPE_ENUM: "INT",
         F.TYPE_INT32: "INT", F.TYPE_INT64: "INT", F.TYPE_UINT64: "INT"}


def main():
    text, faults, rows = open(sys.argv[1]).read(), [], 0
    by_type = {message.DESCRIPTOR.full_name: name for name, message in MESSAGES.items()}
    for row in re.finditer(r"X\((\w+), (\w+), (\d+), ([A-Z]+), (\w+), ([01])\)", text):
        message, name, number, kind, value, many = row.groups()
        rows += 1
        field = getattr(MESSAGES.get(message), "DESCRIPTOR", None)
        field = field and field.fields_by_number.get(int(number))
        if not field:
            if message != "opaque_type":  # the wheel may be built without ONNX-ML
                faults.append(f"{message}.{name}: no field {number}")
            continue
        if field.name.rstrip("_") != name and (message, name) != ("type", "opaque_type"):
            faults.append(f"{message}.{name}: field {number} is {field.name}")
        if KINDS[field.type] != kind:
            faults.append(f"{message}.{name}: a field of type {field.type}")
        if field.is_repeated != (many == "1"):
            faults.append(f"{message}.{name}: a list, or not")
        if kind == "MESSAGE" and value != "other" and by_type.get(
                field.message_type.full_name) != value:
            faults.append(f"{message}.{name}: a {field.message_type.full_name}")
    for row in re.finditer(r"X\((\w+), (\d+), (\d+), RG_\w+, [A-Z]+\)", text):
        name, number, _ = row.groups()
        rows += 1
        if int(number) not in onnx.TensorProto.DataType.values():
            continue
        theirs = onnx.TensorProto.DataType.Name(int(number)).lower()
        ours = {"f": "float", "u": "uint", "i": "int", "bf": "bfloat"}
        short = re.fullmatch(r"(bf|f|u|i)(\d+)(\w*)", name)
        known = ours[short[1]] + short[2] + short[3] if short else name
        known = {"float32": "float", "float64": "double", "float8e4m3": "float8e4m3fn"}.get(
            known, known)
        if known != theirs:
            faults.append(f"{name}: type {number} is {theirs}")
    print("\n".join(faults + [f"{rows} rows, {len(faults)} faults"]))
    sys.exit(1 if faults or not rows else 0)


if __name__ == "__main__":
    main()
