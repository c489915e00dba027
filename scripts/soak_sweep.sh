#!/bin/sh
# SPDX-License-Identifier: MIT
# Kill a sweep 200 times (or $1) at random moments, go on each time, and compare row by row with a
# sweep that nobody killed. $2 is the seed of the moments; it is printed when left out.
cd "$(dirname "$0")/.." || exit 1
LUA_PATH='lua/?.lua;lua/?/init.lua;;'
export LUA_PATH
exec luajit tests/lua/sweep/kill_runs.lua "${1:-200}" ${2:+"$2"}
