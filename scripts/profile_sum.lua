-- SPDX-License-Identifier: MIT
-- How far the times of layers in a profile add up to a training step that nobody looks on at, by
-- the clock on the wall: a ResNet-18 and a transformer, each step once with a profile and once
-- without, which of them comes first in turn. One compute thread, so that other programs matter
-- less; what disturbs one of a pair is taken out by the median of their ratios.
--
--     taskset -c 0 ./ridge scripts/profile_sum.lua [pairs]

local ridge = require 'ridge'
local nn = ridge.nn

local N = tonumber((...)) or 41

local function quartiles(list)
  table.sort(list)
  return list[math.ceil(#list / 4)], list[math.ceil(#list / 2)], list[math.ceil(3 * #list / 4)]
end

-- -- The networks -------------------------------------------------------------------------------

local function convolution(list, c_in, c_out, kernel, stride)
  list[#list + 1] = nn.Conv2d(c_in, c_out, kernel, { stride = stride, bias = false,
    padding = math.floor(kernel / 2) })
  list[#list + 1] = nn.BatchNorm(c_out)
  return list
end

-- He et al., 2016: of each width two blocks of two convolutions.
local function resnet18()
  local list, c = convolution({}, 3, 64, 7, 2), 64
  list[#list + 1] = nn.ReLU()
  list[#list + 1] = nn.MaxPool2d(3, { stride = 2, padding = 1 })
  for i = 0, 3 do
    local width = 64 * 2 ^ i
    for j = 1, 2 do
      local stride = i > 0 and j == 1 and 2 or 1
      local inner = convolution({}, c, width, 3, stride)
      inner[#inner + 1] = nn.ReLU()
      convolution(inner, width, width, 3, 1)
      if c ~= width then
        inner[#inner + 1] = { around = nn.Sequential(unpack(convolution({}, c, width, 1, stride))) }
      end
      list[#list + 1] = nn.Residual(unpack(inner))
      list[#list + 1] = nn.ReLU()
      c = width
    end
  end
  list[#list + 1] = nn.AvgPool2d(7)
  list[#list + 1] = nn.Flatten()
  list[#list + 1] = nn.Linear(c, 1000)
  return nn.Sequential(unpack(list))
end

local function transformer()
  local list = {}
  for i = 1, 4 do list[i] = nn.TransformerBlock(256, { heads = 4, causal = true }) end
  list[5] = nn.LayerNorm(256)
  return nn.Sequential(unpack(list))
end

-- -- Steps --------------------------------------------------------------------------------------

local function training_step(net, x)
  local optimizer = ridge.optim.SGD(net, { lr = 1e-4 })
  return function()
    optimizer:zero_grad()
    local y = net(x)
    ridge.profile_range('loss_computation', function() return y:square():mean() end):backward()
    optimizer:step()
  end
end

local function plain(step)
  local before = ridge.clock()
  step()
  return (ridge.clock() - before) * 1e9
end

-- Time of all rows, of those that are modules, and what stays in the section of the backward pass
-- outside of all modules.
local function profiled(step)
  local p = ridge.profile(step, { num_steps = 1, lines = false, roof = 'none' })
  local all, modules, gaps = 0, 0, 0
  for _, layer in ipairs(p.layers) do
    all = all + layer.self_ns
    if layer.module then modules = modules + layer.self_ns end
    if layer.name == '(backward)' then gaps = gaps + layer.lua_ns end
  end
  return all, modules, gaps
end

local function report(name, step)
  for _ = 1, 3 do step() end
  local ratios, inside, left, times = {}, {}, {}, {}
  for i = 1, N do
    local alone = i % 2 == 0 and plain(step) or nil
    local all, modules, gaps = profiled(step)
    alone = alone or plain(step)
    ratios[i], inside[i], left[i], times[i] = all / alone, modules / all, gaps / all, alone
  end
  local low, half, high = quartiles(ratios)
  local _, time = quartiles(times)
  local _, share = quartiles(inside)
  local _, rest = quartiles(left)
  print(('%s: a step takes %.1f ms; rows of its profile add up to %.3f of it (quartiles %.3f .. '
    .. '%.3f, %d pairs)'):format(name, time / 1e6, half, low, high, N))
  print(('  modules are %.1f %% of the rows; %.2f %% of them is time of the backward pass that '
    .. 'belongs to none'):format(100 * share, 100 * rest))
end

ridge.backend.set_threads(1)
report('ResNet-18, 1 image of 224 x 224', training_step(resnet18(), ridge.randn(1, 3, 224, 224)))
report('transformer, 4 blocks of 256, 2 rows of 128',
  training_step(transformer(), ridge.randn(2, 128, 256)))
