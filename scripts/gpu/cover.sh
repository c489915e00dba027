#!/bin/bash
# SPDX-License-Identifier: MIT
#
# cover.sh: runs every operation on the simulated GPU and prints the lines of gpu/ that were never
# run, by file, and the percentages.  `make cover-gpu` builds what it needs.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build}
objects=$build/obj/simcov

find "$objects" -name '*.gcda' -delete
export RIDGE_GPU=$build/libridge_gpusimcov.so
{
  RIDGE_TEST_DEVICE=1 scripts/run_tests tests/op/op_spec.lua tests/op/grad_spec.lua
  ./ridge tests/lua/device_child.lua
} >"$build/cover-gpu.log" 2>&1 || echo "cover: some tests failed, see $build/cover-gpu.log"
tail -n 2 "$build/cover-gpu.log"
find "$objects" -name '*.gcda' -exec gcov --stdout {} + >"$build/cover-gpu.txt" 2>/dev/null
luajit scripts/cover.lua "$PWD" "$build/cover-gpu.txt"
