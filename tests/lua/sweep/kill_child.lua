-- SPDX-License-Identifier: MIT
-- A sweep in a process of its own, to be killed:
-- luajit kill_child.lua DB [POINTS [MICROSECONDS [WORKERS [PASSES]]]].
-- Its results depend on the parameters alone, so that two databases can be compared row by row.

local ffi = require 'ffi'
local lab = dofile 'tests/lua/sweep/cheap_lab.lua'.new()
local sweep = require 'ridge.sweep'

ffi.cdef 'int usleep(unsigned);'

local db, points, us = arg[1], tonumber(arg[2] or 120), tonumber(arg[3] or 3000)
local workers = tonumber(arg[4] or 1)
local passes = tonumber(arg[5] or 1)
lab.command = workers > 1 and require('ridge.sweep.child').own_words or lab.command

local sw = sweep 'killed' {
  space = { k = sweep.range(1, points / 2), kind = { 'a', 'b' } },
  protocol = { passes = passes, max_passes = passes },
  tries = { lost = 1000 }, -- however often it is killed, it is not its own doing
  setup = function(p)
    ffi.C.usleep(us / 2)
    return { time = p.k * 100 + (p.kind == 'b' and 50 or 0) }
  end,
  measure = function(p, c, m)
    if p.k % 17 == 0 then m:infeasible 'a multiple of 17' end
    if p.k % 19 == 0 then error 'a multiple of 19' end
    m:time('fwd', function()
      ffi.C.usleep(us / 2)
      return c.time * (1 + (m.pass * 7 % 5) / 100)
    end)
    m:cost('fwd', { flops = 1000 * p.k })
    m:metric('k2', p.k * p.k)
  end,
}

local summary = sw:run { db = db, lab = lab, progress = false, workers = workers }
print(('%d of %d'):format(summary.counts.total, points))
