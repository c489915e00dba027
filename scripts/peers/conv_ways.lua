-- SPDX-License-Identifier: MIT
--- How far the way that convolutions take without a table is from the fastest one, over drawn
--- shapes: RIDGE_LUA=lua ./ridge --threads 1 scripts/peers/conv_ways.lua [SHAPES] [SEED] [rows]
--
-- Each convolution and its gradients is measured by every way, round by round; off is the median of
-- the rounds' ratios, the way of the rule over the fastest. With `rows` each is printed.

local ridge = require 'ridge'
local choices = require 'ridge.choices'

local SHAPES, SEED = tonumber(arg[1]) or 48, tonumber(arg[2]) or 1
local CHANNELS = { 1, 2, 3, 6, 8, 16, 24, 32, 64, 96, 128 }
local SIZES = { 5, 7, 9, 13, 14, 17, 28, 31, 32, 56 }
local MOST = 3e7 -- operations: some milliseconds
local ROUNDS = 9

math.randomseed(SEED)
local function one(list) return list[math.random(#list)] end

local function draw()
  while true do
    local s = { n = one { 1, 4, 16, 64 }, c = one(CHANNELS), o = one(CHANNELS), h = one(SIZES),
      w = one(SIZES), k = one { 1, 1, 3, 3, 5 }, stride = one { 1, 1, 1, 2 }, groups = 1 }
    if math.random() < 0.1 then s.o, s.groups = s.c, s.c end
    local work = 2 * s.n * s.c / s.groups * s.o * s.h * s.w * s.k ^ 2 / s.stride ^ 2
    if work <= MOST and work > 1e5 then return s end
  end
end

local function run(s, layout, dtype)
  local g = ridge.generator(1)
  local x = layout == 'nhwc' and ridge.randn(s.n, s.h, s.w, s.c, { generator = g })
    or ridge.randn(s.n, s.c, s.h, s.w, { generator = g })
  local layer = ridge.nn.Conv2d(s.c, s.o, s.k, { seed = 1, padding = (s.k - 1) / 2,
    stride = s.stride, groups = s.groups, layout = layout }):to(dtype)
  x = x:to(dtype):requires_grad_()
  return choices.measured(ROUNDS, function()
    local y = layer(x)
    y:backward(ridge.ones(unpack(y.shape)):to(dtype))
  end)
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
  local s = draw()
  for _, layout in ipairs { 'nchw', 'nhwc' } do
    for _, dtype in ipairs { 'f32', 'bf16' } do
      for _, r in ipairs(run(s, layout, dtype)) do
        if r.images and r.paths[r.standard] then
          r.off, r.best = 1, r.standard
          for way, t in pairs(r.paths) do
            if t.ratio and 1 / t.ratio > r.off then r.off, r.best = 1 / t.ratio, way end
          end
          all[#all + 1] = r
          add('all', r)
          add(('%s %s %s'):format(r.op, layout, dtype), r)
        end
      end
    end
  end
  collectgarbage()
end

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
