#!/bin/sh
# SPDX-License-Identifier: MIT
# `make onnx`: ONNX's tests of its operators and its light models. ONNX_VENV names a virtual
# environment outside the project, with onnx 1.19.0, onnxruntime and numpy:
#     python3 -m venv ~/onnx && ~/onnx/bin/pip install onnx==1.19.0 onnxruntime
set -eu
venv=${ONNX_VENV:-}
if [ -z "$venv" ] || [ ! -x "$venv/bin/python" ]; then
  echo 'make onnx: ONNX_VENV names no virtual environment with onnx and onnxruntime' >&2
  exit 2
fi
data=$("$venv/bin/python" -c 'import onnx.backend.test, os; print(os.path.join(os.path.dirname(
  onnx.backend.test.__file__), "data"))')
drawn=$(mktemp -d)
trap 'rm -rf "$drawn"' EXIT
"$venv/bin/python" scripts/onnx/fields_check.py core/ridge/onnx.h
"$venv/bin/python" scripts/onnx/fixtures.py "$drawn/fixtures"
for file in "$drawn"/fixtures/*; do # which onnx of another version may write differently
  cmp "$file" "tests/fixtures/onnx/${file##*/}" || echo 'another fixture than the one that is kept'
done
mkdir "$drawn/nets"
./ridge scripts/onnx/export_nets.lua "$drawn/nets" >"$drawn/rows"
"$venv/bin/python" scripts/onnx/export_check.py "$drawn/nets" "$drawn/rows" >"$drawn/table" ||
  { cat "$drawn/table"; exit 1; }
cp "$drawn/table" results/onnx_export.md
mkdir "$drawn/quant"
./ridge scripts/onnx/quant_nets.lua "$drawn/quant" >"$drawn/rows"
"$venv/bin/python" scripts/onnx/quant_check.py "$drawn/quant" "$drawn/rows" >"$drawn/table" ||
  { cat "$drawn/table"; exit 1; }
cp "$drawn/table" results/onnx_quant.md
./ridge scripts/onnx/node_tests.lua "$data/node" --list "$drawn/names"
theirs=$("$venv/bin/python" scripts/onnx/ort_nodes.py "$data/node" "$drawn/names")
./ridge scripts/onnx/node_tests.lua "$data/node" --write results/onnx_nodes.md --note "$theirs"
./ridge scripts/onnx/light.lua "$data/light"
"$venv/bin/python" scripts/onnx/random_weights.py "$data/light" "$drawn"
./ridge scripts/onnx/light.lua "$drawn"
