-- SPDX-License-Identifier: MIT
--- The networks of onnx_bench.py out of ridge's modules, in inference. Parameters stand in the same
--- order as there.

local ridge = require 'ridge'
local nn = ridge.nn

local M = {}

-- -- Pieces -------------------------------------------------------------------------------------

-- The mean of each channel: [n x c].
local ChannelMeans = nn.class 'ChannelMeans'
function ChannelMeans.forward(_, x) return x:mean { 3, 4 } end

-- Convolution and batch normalisation, then act() where it is given, behind the modules of a list.
local function convolve(list, c_in, c_out, kernel, opts)
  opts = opts or {}
  list[#list + 1] = nn.Conv2d(c_in, c_out, kernel, { stride = opts.stride or 1,
    padding = math.floor(kernel / 2), groups = opts.groups or 1, bias = false })
  list[#list + 1] = nn.BatchNorm(c_out)
  if opts.act then list[#list + 1] = opts.act() end
  return list
end

local function residual(inner, shortcut)
  if not shortcut then return nn.Residual(unpack(inner)) end
  inner[#inner + 1] = { around = nn.Sequential(unpack(shortcut)) }
  return nn.Residual(unpack(inner))
end

local function head(list, c)
  list[#list + 1] = ChannelMeans()
  list[#list + 1] = nn.Linear(c, 1000)
  return nn.Sequential(unpack(list))
end

-- -- Networks -----------------------------------------------------------------------------------

function M.lenet()
  return nn.Sequential(
    nn.Conv2d(1, 6, 5, { padding = 2 }), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
    nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
end

function M.mlp()
  return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
end

function M.block() return nn.TransformerBlock(256, { heads = 4, causal = true }) end

--- He et al., 2016; strides of bottlenecks at the 3x3 convolution.
---@param counts number[] blocks of each width
---@param bottleneck boolean|nil
function M.resnet(counts, bottleneck)
  local out, c = bottleneck and 4 or 1, 64
  local list = convolve({}, 3, 64, 7, { stride = 2, act = nn.ReLU })
  list[#list + 1] = nn.MaxPool2d(3, { stride = 2, padding = 1 })
  for i, count in ipairs(counts) do
    local width = 64 * 2 ^ (i - 1)
    for j = 1, count do
      local stride = i > 1 and j == 1 and 2 or 1
      local shortcut = (stride > 1 or c ~= width * out)
        and convolve({}, c, width * out, 1, { stride = stride }) or nil
      local inner = {}
      if bottleneck then
        convolve(inner, c, width, 1, { act = nn.ReLU })
        convolve(inner, width, width, 3, { stride = stride, act = nn.ReLU })
        convolve(inner, width, width * 4, 1)
      else
        convolve(inner, c, width, 3, { stride = stride, act = nn.ReLU })
        convolve(inner, width, width, 3)
      end
      list[#list + 1] = residual(inner, shortcut)
      list[#list + 1] = nn.ReLU()
      c = width * out
    end
  end
  return head(list, c)
end

--- Sandler et al., 2018.
function M.mobilenet_v2()
  local list, c = convolve({}, 3, 32, 3, { stride = 2, act = nn.ReLU6 }), 32
  for _, row in ipairs { { 1, 16, 1, 1 }, { 6, 24, 2, 2 }, { 6, 32, 3, 2 }, { 6, 64, 4, 2 },
                         { 6, 96, 3, 1 }, { 6, 160, 3, 2 }, { 6, 320, 1, 1 } } do
    local expand, width, count, first = unpack(row)
    for j = 1, count do
      local stride, wide = j == 1 and first or 1, c * expand
      local inner = expand > 1 and convolve({}, c, wide, 1, { act = nn.ReLU6 }) or {}
      convolve(inner, wide, wide, 3, { stride = stride, groups = wide, act = nn.ReLU6 })
      convolve(inner, wide, width, 1)
      if stride == 1 and c == width then
        list[#list + 1] = residual(inner)
      else
        for _, module in ipairs(inner) do list[#list + 1] = module end
      end
      c = width
    end
  end
  return head(convolve(list, c, 1280, 1, { act = nn.ReLU6 }), 1280)
end

-- -- Cases --------------------------------------------------------------------------------------

--- Of each case its name, what makes the network, and the shape of its input.
M.cases = {
  { 'mlp_fwd_b32', M.mlp, { 32, 64 } },
  { 'lenet_b1', M.lenet, { 1, 1, 28, 28 } },
  { 'lenet_b64', M.lenet, { 64, 1, 28, 28 } },
  { 'block_fwd_b8', M.block, { 8, 128, 256 } },
  { 'resnet18_b1', function() return M.resnet { 2, 2, 2, 2 } end, { 1, 3, 224, 224 } },
  { 'resnet50_b1', function() return M.resnet({ 3, 4, 6, 3 }, true) end, { 1, 3, 224, 224 } },
  { 'mobilenet_v2_b1', M.mobilenet_v2, { 1, 3, 224, 224 } },
}

return M
