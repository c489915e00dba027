#!/bin/sh
# SPDX-License-Identifier: MIT
# Kill sweeps at random moments, go on each time, and compare row by row with a sweep that nobody
# killed: one process, the whole group of a sweep with four workers, its workers one after the
# other, and both of a sweep of two workers in five passes, 200 times each (or $1 times). $2 is the
# seed of the moments; it is printed when left out. Then eight processes write 3,000 points into
# one database while two read it.
cd "$(dirname "$0")/.." || exit 1
LUA_PATH='lua/?.lua;lua/?/init.lua;;'
export LUA_PATH
status=0
for kind in one group worker passes brothers; do
  luajit tests/lua/sweep/kill_runs.lua "${1:-200}" "${2:-$(date +%s)}" "$kind" || status=1
done
RIDGE_CROWD=3000 scripts/run_tests tests/lua/sweep/crowd_spec.lua || status=1
exit $status
