-- SPDX-License-Identifier: MIT
--- Which floating-point operations of an event are multiply-adds of products, the ones that
--- published figures count, and which are not: softmax, activations, normalisation, pooling, draws.
--
-- How many operations a call has in all is known from its record (rg_op.cost), and comes with the
-- event; here is only how they divide.

local M = {}

-- Sizes of the tensors of a call by its text: 'f32[2,3] f32[4,3] -> f32[2,4]'.
local function sizes_of(shapes)
  local list = {}
  for inside in (shapes or ''):gmatch '%[([^%]]*)%]' do
    local sizes = {}
    for size in inside:gmatch '%d+' do sizes[#sizes + 1] = tonumber(size) end
    list[#list + 1] = sizes
  end
  return list
end

local function all(flops) return flops end

-- Of each score some multiply-adds make it and use it, and the rest is the softmax's and dropout's;
-- besides there are some operations for each element of the result (attention.c).
local function attention(of_d, of_e, rest, of_result)
  return function(flops, shapes)
    local list = sizes_of(shapes)
    local queries = 1
    for i = 1, #list[1] - 1 do queries = queries * list[1][i] end
    local d, e = list[1][#list[1]], list[3][#list[3]]
    local products = of_d * d + of_e * e
    return (flops - of_result * queries * e) * products / (products + rest)
  end
end

-- The signs are made as they are used (sketch.c).
local function seeded(flops, shapes)
  local list = sizes_of(shapes)
  local signs = 0
  for _, at in ipairs { 2, 4 } do
    local count = 1
    for _, size in ipairs(list[at]) do count = count * size end
    signs = signs + count
  end
  return flops - 100 / 128 * signs
end

-- Two scales for each element of the result (scaled.c).
local function scaled(flops, shapes)
  local k = sizes_of(shapes)[2][2]
  return flops * k / (k + 1)
end

-- The same of a convolution, whose weight is [o x c/groups x kh x kw] (scaled_conv.c).
local function scaled_conv(flops, shapes)
  local w = sizes_of(shapes)[2]
  local k = w[2] * w[3] * w[4]
  return flops * k / (k + 1)
end

local OF = { matmul = all, linear = all, linear_dropout = all, lowrank_linear = all,
  sketched_linear = all, sketched_linear_bits = all, sketched_linear_seed = seeded,
  scaled_linear = scaled, scaled_conv2d = scaled_conv, packed_linear = all,
  sparse_linear = all, n_of_m_linear = all,
  conv2d = all, conv2d_back_data = all, conv2d_back_weight = all,
  attention = attention(2, 2, 14, 1), attention_back = attention(6, 4, 15, 2),
  attention_dropout = attention(2, 2, 40, 1),
  attention_dropout_back = attention(6, 4, 42, 2) }

--- Operations of an event that are multiply-adds of a product, two each. Where its shapes were not
--- kept ("(too many shapes)", or no memory) all of them are taken for such.
---@param event table name, flops, shapes
---@return number flops
function M.of(event)
  local f = OF[event.name]
  if not f or event.flops == 0 then return 0 end
  if not (event.shapes or ''):find('[', 1, true) then return event.flops end
  return f(event.flops, event.shapes)
end

return M
