-- SPDX-License-Identifier: MIT
--- What each rank does for `ridge net`: all-reduces of several sizes, in rounds that have each of
--- them, so that what the machine does in a round falls on all.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local worlds = require 'ridge.world'

local M = {}

local WHAT = 'ridge net'
local TARGET_NS = 2e6 -- of the calls of a size in a round
local MOST_CALLS = 200

local function call_of(x, op, dtype)
  return { kind = C.RG_GROUP_ALL_REDUCE, op = op, dtype = dtype, count = x.count,
    ['in'] = x.memory, out = x.memory }
end

-- Nanoseconds of a call, of n in a row behind a barrier.
local function time(world, x, n)
  worlds.run(world, WHAT, { kind = C.RG_GROUP_BARRIER })
  local began = C.rg_clock_ns()
  for _ = 1, n do worlds.run(world, WHAT, call_of(x, C.RG_GROUP_SUM, C.RG_F32), x.memory) end
  return tonumber(C.rg_clock_ns() - began) / n
end

-- Of a few numbers the greatest that a rank has, on all.
local function greatest(world, list)
  local n = #list
  local values = ffi.new('double[?]', n, list)
  worlds.run(world, WHAT, { kind = C.RG_GROUP_ALL_REDUCE, op = C.RG_GROUP_MAX, dtype = C.RG_F64,
    count = n, ['in'] = values, out = values }, values)
  for i = 1, n do list[i] = values[i - 1] end
  return list
end

--- Measure, and write a line for each size and round: bytes, round, ns.
---@param argv string[] the file, rounds, bytes of each size
function M.main(argv)
  local path, rounds = argv[1], tonumber(argv[2])
  local world = worlds.init { timeout = 120 }
  local sizes = {}
  for i = 3, #argv do
    local bytes = tonumber(argv[i])
    sizes[#sizes + 1] = { bytes = bytes, count = bytes / 4, -- zeros: their sums stay what they are
      memory = ffi.new('float[?]', bytes / 4) }
  end
  for _, x in ipairs(sizes) do
    time(world, x, 3)
    local took = greatest(world, { time(world, x, 3) })[1]
    x.calls = worlds.first(world, WHAT, { math.max(1, math.min(MOST_CALLS,
      math.floor(TARGET_NS / took))) })[1]
  end
  local lines = {}
  for round = 1, rounds do
    local took = {}
    for k = 1, #sizes do -- another one begins each round
      local i = (k + round) % #sizes + 1
      took[i] = time(world, sizes[i], sizes[i].calls)
    end
    greatest(world, took) -- a call has ended when its last rank has
    for i, x in ipairs(sizes) do
      lines[#lines + 1] = ('%d %d %.3f'):format(x.bytes, round, took[i])
    end
  end
  if world.rank > 0 then return end
  local file = assert(io.open(path, 'w'))
  file:write(world.library, '\n', table.concat(lines, '\n'), '\n')
  assert(file:close())
end

return M
