-- SPDX-License-Identifier: MIT
--- Networks whose sizes are published, out of ridge's modules.

local ridge = require 'ridge'
local nn = ridge.nn

local M = {}

-- -- LeNet-5 ------------------------------------------------------------------------------------

-- A coefficient and a bias for each map, behind the sum of a window.
local Subsample = nn.class 'Subsample'
function Subsample:init(maps)
  self:param('coefficient', ridge.ones(maps, 1, 1))
  self:param('bias', ridge.zeros(maps, 1, 1))
end
function Subsample:forward(x) return x:avg_pool2d(2) * self.coefficient + self.bias end

-- Table I of the paper: which maps of S2 each map of C3 reads.
local READS = { { 0, 1, 2 }, { 1, 2, 3 }, { 2, 3, 4 }, { 3, 4, 5 }, { 4, 5, 0 }, { 5, 0, 1 },
  { 0, 1, 2, 3 }, { 1, 2, 3, 4 }, { 2, 3, 4, 5 }, { 3, 4, 5, 0 }, { 4, 5, 0, 1 }, { 5, 0, 1, 2 },
  { 0, 1, 3, 4 }, { 1, 2, 4, 5 }, { 2, 3, 5, 0 }, { 0, 1, 2, 3, 4, 5 } }

local Partial = nn.class 'Partial'
function Partial:init()
  self.maps = {}
  for i, reads in ipairs(READS) do
    self.maps[i] = self:child(i, nn.Conv2d(#reads, 1, 5))
  end
end
function Partial:forward(x)
  local out = {}
  for i, reads in ipairs(READS) do
    local parts = {}
    for k, map in ipairs(reads) do parts[k] = x:narrow(2, map + 1, 1) end
    out[i] = self.maps[i](ridge.concat(parts, 2))
  end
  return ridge.concat(out, 2)
end

--- LeCun, Bottou, Bengio and Haffner, Gradient-Based Learning Applied to Document Recognition,
--- 1998, figure 2, without the output layer, whose 840 weights are fixed.
function M.lenet5()
  return nn.Sequential(
    nn.Conv2d(1, 6, 5), Subsample(6), nn.Tanh(), Partial(), Subsample(16), nn.Tanh(),
    nn.Conv2d(16, 120, 5), nn.Tanh(), nn.Flatten(), nn.Linear(120, 84), nn.Tanh())
end

-- -- AlexNet -----------------------------------------------------------------------------------

--- Krizhevsky, One weird trick for parallelizing convolutional neural networks, 2014, as
--- torchvision has it.
function M.alexnet()
  return nn.Sequential(
    nn.Conv2d(3, 64, 11, { stride = 4, padding = 2 }), nn.ReLU(),
    nn.MaxPool2d(3, { stride = 2 }), nn.Conv2d(64, 192, 5, { padding = 2 }), nn.ReLU(),
    nn.MaxPool2d(3, { stride = 2 }), nn.Conv2d(192, 384, 3, { padding = 1 }), nn.ReLU(),
    nn.Conv2d(384, 256, 3, { padding = 1 }), nn.ReLU(),
    nn.Conv2d(256, 256, 3, { padding = 1 }), nn.ReLU(), nn.MaxPool2d(3, { stride = 2 }),
    nn.Flatten(), nn.Dropout(0.5), nn.Linear(256 * 6 * 6, 4096), nn.ReLU(), nn.Dropout(0.5),
    nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000))
end

-- -- MobileNet ----------------------------------------------------------------------------------

local Means = nn.class 'Means'
function Means.forward(_, x) return x:mean { 3, 4 } end

--- Howard et al., MobileNets, 2017, table 1.
function M.mobilenet_v1()
  local list = {}
  local function add(c_in, c_out, kernel, stride, groups)
    list[#list + 1] = nn.Conv2d(c_in, c_out, kernel, { stride = stride, groups = groups,
      padding = math.floor(kernel / 2), bias = false })
    list[#list + 1] = nn.BatchNorm(c_out)
    list[#list + 1] = nn.ReLU()
  end
  add(3, 32, 3, 2, 1)
  local c = 32
  for _, row in ipairs { { 64, 1 }, { 128, 2 }, { 128, 1 }, { 256, 2 }, { 256, 1 }, { 512, 2 },
      { 512, 1 }, { 512, 1 }, { 512, 1 }, { 512, 1 }, { 512, 1 }, { 1024, 2 }, { 1024, 1 } } do
    add(c, c, 3, row[2], c)
    add(c, row[1], 1, 1, 1)
    c = row[1]
  end
  list[#list + 1] = Means()
  list[#list + 1] = nn.Linear(1024, 1000)
  return nn.Sequential(unpack(list))
end

-- -- GPT-2 ---------------------------------------------------------------------------------------

-- 39 million numbers that nobody looks at need not be drawn.
local Table = nn.class 'Table'
function Table:init(rows, n) self:param('weight', ridge.zeros(rows, n)) end
function Table:forward(x) return self.weight:take(x) end

local Head = nn.class 'Head'
function Head:init(weight) self:param('weight', weight) end
function Head:forward(x) return x:matmul(self.weight:t()) end

local GPT2 = nn.class 'GPT2'
function GPT2:init(o)
  self:child('wte', Table(o.vocabulary, o.n))
  self:child('wpe', nn.Embedding(o.context, o.n))
  local blocks = {}
  for i = 1, o.layers do
    blocks[i] = nn.TransformerBlock(o.n, { heads = o.heads, causal = true })
  end
  self:child('blocks', nn.Sequential(unpack(blocks)))
  self:child('norm', nn.LayerNorm(o.n))
  self:child('head', Head(self.children[1].module.weight))
  for _, c in ipairs(self.children) do self[c.name] = c.module end
end
function GPT2:forward(tokens)
  local places = ridge.arange(0, tokens:size(2) - 1):to 'i64'
  local x = self.wte(tokens) + self.wpe(places)
  return self.head(self.norm(self.blocks(x)))
end

--- Radford et al., Language Models are Unsupervised Multitask Learners, 2019.
---@param o table|nil vocabulary, context, n, layers, heads; those of the smallest when left out
function M.gpt2(o)
  return GPT2(o or { vocabulary = 50257, context = 1024, n = 768, layers = 12, heads = 12 })
end

return M
