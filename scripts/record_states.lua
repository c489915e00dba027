-- SPDX-License-Identifier: MIT
--- Record what this machine does to four calls: a series of windows that shows its states and how
--- long they last, and pass medians of fresh processes.  tests/fixtures/states.txt is such a
--- recording; the coverage of intervals is simulated with it.
--
--     ./ridge scripts/record_states.lua --seconds 100 --passes 150 > tests/fixtures/states.txt
--
-- Every series is a line of its name, its median in nanoseconds and its number of values, then
-- lines of the values in per mille of that median.

local ridge = require 'ridge'
local statistics = require 'ridge.measure.statistics'
local windows_of = require('ridge.measure.native').windows

local opt = ridge.args {
  { 'seconds', 100, 'length of the series of windows', min = 0 },
  { 'passes', 150, 'fresh processes', min = 0, integer = true },
  { 'child', false, 'measure one pass and print its medians' },
}
ridge.set_num_threads(1)

local WINDOW_NS = 6e6
local PER_LINE = 18

local function calls()
  local linear, small = ridge.randn(16, 256), ridge.randn(64)
  local weight, large = ridge.randn(256, 256), ridge.randn(4000000)
  local rows = ridge.randn(60, 1000)
  return {
    { 'small', ridge.capture(function() return small + 1 end) },
    { 'linear', ridge.capture(function() return linear:matmul(weight) end) },
    { 'softmax', ridge.capture(function() return rows:softmax() end) },
    { 'streaming', ridge.capture(function() return large + 1 end) },
  }
end

local function sized()
  local list = {}
  for i, call in ipairs(calls()) do
    local take = windows_of(call[2])
    local k = 1
    while true do
      local w = take(k, 1, false)[1]
      if w.end_ns - w.begin_ns >= WINDOW_NS / 2 then break end
      k = k * 2
    end
    list[i] = { name = call[1], values = {}, take = function()
      local w = take(k, 1, false)[1]
      return (w.end_ns - w.begin_ns) / k
    end }
  end
  return list
end

-- One pass of a fresh process: the median of three windows of each call, after two.
local function child()
  for _, call in ipairs(sized()) do
    for _ = 1, 2 do call.take() end
    io.write(('%.4f '):format(statistics.median { call.take(), call.take(), call.take() }))
  end
  io.write '\n'
end

local function print_series(kind, list)
  for _, call in ipairs(list) do
    local med = statistics.median(call.values)
    print(('%s %s %.4f %d'):format(kind, call.name, med, #call.values))
    for first = 1, #call.values, PER_LINE do
      local line = {}
      for i = first, math.min(first + PER_LINE - 1, #call.values) do
        line[#line + 1] = ('%d'):format(math.floor(1000 * call.values[i] / med + 0.5))
      end
      print(table.concat(line, ' '))
    end
  end
end

if opt.child then return child() end

local list = sized()
local ends = os.time() + opt.seconds
while os.time() < ends and not ridge.stopping() do
  for _, call in ipairs(list) do call.values[#call.values + 1] = call.take() end
end
if opt.seconds > 0 then print_series('windows', list) end

for _, call in ipairs(list) do call.values = {} end
for _ = 1, opt.passes do
  if ridge.stopping() then break end
  local pipe = io.popen './ridge scripts/record_states.lua --child'
  for _, call in ipairs(list) do
    call.values[#call.values + 1] = pipe:read '*n'
  end
  pipe:close()
end
if opt.passes > 0 then print_series('passes', list) end
