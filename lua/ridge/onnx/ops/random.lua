-- SPDX-License-Identifier: MIT
--- ONNX's random draws, from the default stream (ridge.seed): a file's own seed does not say which
--- numbers those are, and is not taken.

local ridge = require 'ridge'
local kit = require 'ridge.onnx.ops.kit'

local M = {}

local function type_of(n, default)
  return n:has 'dtype' and kit.type_of(n, n:int 'dtype') or default
end

local function normal(n, shape, name)
  return ridge.randn(shape, { dtype = name }) * n:float('scale', 1) + n:float('mean', 0)
end

local function uniform(n, shape, name)
  local low, high = n:float('low', 0), n:float('high', 1)
  return ridge.rand(shape, { dtype = name }) * (high - low) + low
end

for name, draw in pairs { Normal = normal, Uniform = uniform } do
  M['Random' .. name] = { draws = true, run = function(n)
    local shape = n:ints 'shape'
    if not shape then n:fail 'attribute shape is missing' end
    return draw(n, shape, type_of(n, 'f32'))
  end }
  M['Random' .. name .. 'Like'] = { draws = true, run = function(n, x)
    return draw(n, x.shape, type_of(n, x.dtype))
  end }
end

M.Bernoulli = { draws = true, run = function(n, x)
  return ridge.rand(x.shape, { dtype = x.dtype }):lt(x):to(type_of(n, x.dtype))
end }

return M
