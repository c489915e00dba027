-- SPDX-License-Identifier: MIT
--- Where the parameters, operations, memory and time of a network go, layer by layer: ResNet-18 on
--- images, and a transformer on sequences; what they would be at other batch sizes and in bf16; and
--- how far the times of their layers add up to a step that nobody looks on at.
--
-- machine: any
-- time:    about two minutes on two cores
-- result:  tables and the sums of each network
--
--     ./ridge recipes/analyze.lua [--images 4] [--rows 8] [--rounds 9] [--smoke]

local ridge = require 'ridge'
local nn = ridge.nn

local opt = ridge.args {
  { 'images', 4, 'of 224 x 224 in a batch', integer = true, min = 1 },
  { 'rows', 8, 'sequences of 128 in a batch', integer = true, min = 1 },
  { 'rounds', 9, 'of times', integer = true, min = 1 },
  { 'smoke', false, 'toy sizes, to see that everything works' },
}

-- -- The networks -------------------------------------------------------------------------------

local function convolution(list, c_in, c_out, kernel, stride)
  list[#list + 1] = nn.Conv2d(c_in, c_out, kernel, { stride = stride, bias = false,
    padding = math.floor(kernel / 2) })
  list[#list + 1] = nn.BatchNorm(c_out)
  return list
end

-- He et al., 2016: of each width two blocks of two convolutions.
local function resnet18(first)
  local list, c = convolution({}, 3, first, 7, 2), first
  list[#list + 1] = nn.ReLU()
  list[#list + 1] = nn.MaxPool2d(3, { stride = 2, padding = 1 })
  for i = 0, 3 do
    local width = first * 2 ^ i
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
  list[#list + 1] = nn.AvgPool2d(opt.smoke and 1 or 7)
  list[#list + 1] = nn.Flatten()
  list[#list + 1] = nn.Linear(c, opt.smoke and 10 or 1000)
  return nn.Sequential(unpack(list))
end

local function transformer(n, blocks)
  local list = {}
  for i = 1, blocks do list[i] = nn.TransformerBlock(n, { heads = 4, causal = true }) end
  list[blocks + 1] = nn.LayerNorm(n)
  return nn.Sequential(unpack(list))
end

-- -- What is found --------------------------------------------------------------------------------

local function told(name, net, x, batches)
  local a = net:analyze(x, { rounds = opt.rounds })
  print('== ' .. name)
  print(a:text { depth = 1 })
  print()
  print(a:find_bottlenecks())
  print()
  print(a:what_if { batch = batches, dtype = { 'f32', 'bf16' }, recompute = true })
  print(('\n%s: layers %.3f ms, outside %.3f ms, together %.3f of a step of %.3f ms\n'):format(name,
    a.layers_ms, a.outside.ms + a.outside.backward_ms, a.watched_ms / a.step_ms, a.step_ms))
end

if opt.smoke then
  told('ResNet-18, thin', resnet18(4), ridge.randn(2, 3, 32, 32), { 1, 4 })
  told('transformer', transformer(16, 2), ridge.randn(2, 8, 16), { 1, 4 })
else
  told('ResNet-18', resnet18(64), ridge.randn(opt.images, 3, 224, 224), { 1, 2 * opt.images })
  told('transformer', transformer(256, 4), ridge.randn(opt.rows, 128, 256), { 1, 2 * opt.rows })
end
