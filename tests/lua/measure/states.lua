-- SPDX-License-Identifier: MIT
-- Generators of pass medians, for the coverage of intervals: what a machine did (recorded by
-- scripts/record_states.lua: states that dwell for 50 ms to 4 s, fresh processes) and what can be
-- written down.  A generator gives n logarithms of pass medians; `truth` is their true median.

local random = require 'ridge.measure.random'
local statistics = require 'ridge.measure.statistics'

local M = {}

local log = math.log

--- Every generator by its name: draw(random, n) -> n logarithms, truth, and kind ('recorded',
--- 'made').
M.all = {}
M.names = {}

local POPULATION = 40000

local function add(name, kind, draw, truth)
  if not truth then
    local r, all = random.new(77), {}
    for _ = 1, POPULATION / 10 do
      for _, x in ipairs(draw(r, 10)) do all[#all + 1] = x end
    end
    truth = statistics.median(all)
  end
  M.all[name] = { draw = draw, truth = truth, kind = kind }
  M.names[#M.names + 1] = name
end

-- n independent draws
local function each(f)
  return function(r, n)
    local out = {}
    for i = 1, n do out[i] = f(r) end
    return out
  end
end

local function middle(a, b, c) return math.max(math.min(a, b), math.min(math.max(a, b), c)) end

-- -- Recorded -----------------------------------------------------------------------

--- The recording: by kind ('windows', 'passes') and name, logarithms of value over median.
---@param path string
---@return table series
function M.read(path)
  local series, list = { windows = {}, passes = {} }, nil
  for line in io.lines(path) do
    local kind, name = line:match '^(%l+) (%l+) %S+ %d+$'
    if kind then
      list = {}
      series[kind][name] = list
    elseif list then
      for value in line:gmatch '%d+' do list[#list + 1] = log(tonumber(value) / 1000) end
    end
  end
  return series
end

M.series = M.read 'tests/fixtures/states.txt'

local CALLS = { 'small', 'linear', 'softmax', 'streaming' }

for _, name in ipairs(CALLS) do
  local windows, passes = M.series.windows[name], M.series.passes[name]
  -- a pass: three windows in a row at a random moment
  add('windows ' .. name, 'recorded', each(function(r)
    local i = r:integer(#windows - 2)
    return middle(windows[i], windows[i + 1], windows[i + 2])
  end))
  -- fresh processes, in no order
  add('processes ' .. name, 'recorded', each(function(r) return passes[r:integer(#passes)] end),
    statistics.median(passes))
end

-- -- Made ------------------------------------------------------------------------------

add('white', 'made', each(function(r) return 0.02 * r:normal() end), 0)

-- the machine becomes slower by 5 % from the first pass to the last
add('drift', 'made', function(r, n)
  local out = {}
  for i = 1, n do out[i] = 0.05 * ((i - 1 + r:uniform()) / n - 0.5) + 0.01 * r:normal() end
  return out
end, 0)

-- three windows of a slow state, passes far apart
add('autocorrelated', 'made', each(function(r)
  local x, w = 0.03 * r:normal(), {}
  for i = 1, 3 do
    x = 0.95 * x + math.sqrt(1 - 0.95 ^ 2) * 0.03 * r:normal()
    w[i] = x + 0.003 * r:normal()
  end
  return middle(w[1], w[2], w[3])
end), 0)

-- Student's t with two degrees of freedom: no variance
add('heavy tails', 'made', each(function(r)
  return 0.02 * r:normal() / math.sqrt((r:normal() ^ 2 + r:normal() ^ 2) / 2)
end), 0)

add('floor and tail', 'made', each(function(r) return -0.05 * log(1 - r:uniform()) end),
  0.05 * log(2))

-- every fifth pass meets a stall of many times its length
add('stalls', 'made', each(function(r)
  local stall = r:uniform() < 0.2 and log(1 - 8 * log(1 - r:uniform())) or 0
  return 0.01 * r:normal() + stall
end))

for _, share in ipairs { 0.2, 0.4, 0.5 } do
  add(('two states, %d %% slow'):format(100 * share), 'made', each(function(r)
    return (r:uniform() < share and 0.4 or 0) + 0.01 * r:normal()
  end), share == 0.5 and 0.2 or nil)
end

-- two states, and where memory lies in each process
add('two states and layouts', 'made', each(function(r)
  return (r:uniform() < 0.5 and 0.4 or 0) + 0.05 * r:normal()
end), 0.2)

return M
