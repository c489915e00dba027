-- SPDX-License-Identifier: MIT
--- How far the way that convolutions take without a table is from the fastest one, over drawn
--- shapes: ./ridge --threads 1 scripts/peers/conv_ways.lua [SHAPES] [SEED] [rows | times]
--
-- Each convolution and its gradients is measured by every way, round by round; off is the median of
-- the rounds' ratios, the way of the rule over the fastest. With `rows` each is printed. With
-- `times` nothing is printed but times and ratios of all ways, which scripts/peers/conv_rates.py
-- reads; other, larger shapes are drawn for it. `depth` behind either word draws kernels of one
-- channel each alone. RIDGE_ISA and ONEDNN_MAX_CPU_ISA force instruction sets.

local ridge = require 'ridge'
local choices = require 'ridge.choices'

local SHAPES, SEED = tonumber(arg[1]) or 48, tonumber(arg[2]) or 1
local CHANNELS = { 1, 2, 3, 6, 8, 16, 24, 32, 64, 96, 128 }
local SIZES = { 5, 7, 9, 13, 14, 17, 28, 31, 32, 56 }
local MOST = 3e7 -- operations: some milliseconds
local ROUNDS = 9

local DEPTH = arg[4] == 'depth'

math.randomseed(SEED)
local function one(list) return list[math.random(#list)] end

local MORE_CHANNELS = { 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512 }
local MORE_SIZES = { 5, 7, 9, 13, 14, 17, 28, 31, 32, 56, 112, 224 }
local MOST_BYTES = 2.5e7

-- For the rates: sizes of all orders of magnitude, and groups.
local function draw_for_rates()
  local most = 10 ^ (5 + 2.9 * math.random())
  while true do
    local s = { n = one { 1, 1, 4, 16, 64 }, c = one(MORE_CHANNELS), o = one(MORE_CHANNELS),
      h = one(MORE_SIZES), k = one { 1, 1, 3, 3, 5, 7 }, stride = one { 1, 1, 1, 2 }, groups = 1,
      act = one { 'none', 'relu' } }
    s.w = math.random() < 0.5 and s.h or one(MORE_SIZES)
    local r = math.random()
    if r < 0.1 or DEPTH then
      s.o, s.groups = s.c, s.c
    elseif r < 0.17 then
      s.groups = one { 2, 4, 8, 32 }
    end
    local work = 2 * s.n * s.c / s.groups * s.o * s.h * s.w * s.k ^ 2 / s.stride ^ 2
    local bytes = 4 * s.n * s.h * s.w * (s.c + s.o / s.stride ^ 2)
    if s.c % s.groups == 0 and s.o % s.groups == 0 and work <= most and work > most / 4
      and (s.c > 1 or not DEPTH) and bytes < MOST_BYTES then
      return s
    end
  end
end

local function draw()
  while true do
    local s = { n = one { 1, 4, 16, 64 }, c = one(CHANNELS), o = one(CHANNELS), h = one(SIZES),
      w = one(SIZES), k = one { 1, 1, 3, 3, 5 }, stride = one { 1, 1, 1, 2 }, groups = 1 }
    if math.random() < 0.1 or DEPTH then s.o, s.groups = s.c, s.c end
    local work = 2 * s.n * s.c / s.groups * s.o * s.h * s.w * s.k ^ 2 / s.stride ^ 2
    if work <= MOST and work > 1e5 and (s.c > 1 or not DEPTH) then return s end
  end
end

local function run(s, layout, dtype)
  local g = ridge.generator(1)
  local x = layout == 'nhwc' and ridge.randn(s.n, s.h, s.w, s.c, { generator = g })
    or ridge.randn(s.n, s.c, s.h, s.w, { generator = g })
  local layer = ridge.nn.Conv2d(s.c, s.o, s.k, { seed = 1, padding = (s.k - 1) / 2,
    stride = s.stride, groups = s.groups, layout = layout,
    activation = s.act == 'relu' and 'relu' or nil }):to(dtype)
  x = x:to(dtype):requires_grad_()
  local function f()
    local y = layer(x)
    y:backward(ridge.ones(unpack(y.shape)):to(dtype))
  end
  choices.measured(6, f) -- pages that are touched for the first time are no way's
  return choices.measured(ROUNDS, f)
end

local function print_times(r)
  local t = {}
  for way, p in pairs(r.paths) do
    t[#t + 1] = ('%s=%.0f,%.4f'):format(way, p.ns, p.ratio or 1)
  end
  print(('%s | %s | %s'):format(choices.problem(r), r.standard, table.concat(t, ' ')))
end

local groups, order, all = {}, {}, {}
local function add(name, r)
  if not groups[name] then
    groups[name], order[#order + 1] = { n = 0, sum = 0, most = 1, above = 0 }, name
  end
  local g = groups[name]
  g.n, g.sum, g.most = g.n + 1, g.sum + math.log(r.off), math.max(g.most, r.off)
  g.above = g.above + (r.off > 1.3 and 1 or 0)
end

for _ = 1, SHAPES do
  local s = arg[3] == 'times' and draw_for_rates() or draw()
  for _, layout in ipairs { 'nchw', 'nhwc' } do
    for _, dtype in ipairs { 'f32', 'bf16' } do
      for _, r in ipairs(run(s, layout, dtype)) do
        if r.images and r.paths[r.standard] then
          r.off, r.best = 1, r.standard
          for way, t in pairs(r.paths) do
            if t.ratio and 1 / t.ratio > r.off then r.off, r.best = 1 / t.ratio, way end
          end
          if arg[3] == 'times' then print_times(r) end
          all[#all + 1] = r
          add('all', r)
          add(('%s %s %s'):format(r.op, layout, dtype), r)
        end
      end
    end
  end
  collectgarbage()
end

if arg[3] == 'times' then return end
if arg[3] then
  table.sort(all, function(a, b) return a.off > b.off end)
  for _, r in ipairs(all) do
    print(('%5.2f  %-8s %-8s %s'):format(r.off, r.standard, r.best, choices.problem(r)))
  end
end
print(('%-32s %5s %6s %6s %s'):format('time over the fastest way', 'cases', 'mean', 'most',
  'above 1.3'))
for _, name in ipairs(order) do
  local g = groups[name]
  print(('%-32s %5d %6.2f %6.2f %d'):format(name, g.n, math.exp(g.sum / g.n), g.most, g.above))
end
