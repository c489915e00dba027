#!/bin/bash
# SPDX-License-Identifier: MIT
#
# cover.sh: runs every test and prints what none of them reached, line ranges by file, and the
# percentages.  C is counted by gcov; Lua by a line hook, in every process that loads ridge, with
# the JIT compiler off.  Works in build/cover, a copy of the tree.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
root=$PWD copy=$PWD/build/cover

scripts/copy_tree build/cover || exit 1
rm -f "$copy/hits.txt"
# The first line of a source is its licence: the hook takes its place and no line number moves.
find "$copy/lua/ridge" -name '*.lua' -exec \
  sed -i "1s|^-- SPDX.*|dofile('$copy/scripts/cover_hook.lua')|" {} +
count() { make -s -C "$copy" OPT='-O0 -g' EXTRA='--coverage -fprofile-update=atomic' "$@"; }
count all test-programs || exit 1
find "$copy/build" -name '*.gcda' -delete

export RIDGE_COVER=$copy/hits.txt
count test >build/cover.log 2>&1 ||
  echo "cover: some tests failed under the hook, see build/cover.log"
tail -n 1 build/cover.log

cd "$copy" || exit 1
find build/obj -name '*.gcda' -exec gcov --stdout {} + >gcov.txt 2>/dev/null
luajit "$root/scripts/cover.lua" "$root" gcov.txt hits.txt
