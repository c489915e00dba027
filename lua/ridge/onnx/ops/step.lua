-- SPDX-License-Identifier: MIT
--- ONNX's optimizers, of the domain ai.onnx.preview.training: a step as a function.

local M = {}

local DOMAIN = 'ai.onnx.preview.training:'

-- The tensors behind rate and count come in groups of equal length; so do the results.
local function grouped(n, groups, f)
  return function(...)
    local count = select('#', ...) / groups
    if count % 1 ~= 0 then n:fail('%d tensors are no %d of each', select('#', ...), groups) end
    local given, out = { ... }, {}
    for i = 1, count do
      local one = {}
      for g = 1, groups do one[g] = given[(g - 1) * count + i] end
      for g, value in ipairs { f(unpack(one)) } do out[(g - 1) * count + i] = value end
    end
    return unpack(out)
  end
end

M[DOMAIN .. 'Adagrad'] = { reads = { 2 }, run = function(n, rate, count, ...)
  local norm, eps = n:float('norm_coefficient', 0), n:float('epsilon', 1e-6)
  local r = rate / (1 + count[1] * n:float('decay_factor', 0))
  return grouped(n, 3, function(x, g, h)
    local slope = x * norm + g
    h = h + slope * slope
    return x - slope * r / (h:sqrt() + eps), h
  end)(...)
end }

M[DOMAIN .. 'Adam'] = { reads = { 2 }, run = function(n, rate, count, ...)
  local alpha, beta = n:float('alpha', 0.9), n:float('beta', 0.999)
  local eps, t = n:float('epsilon', 1e-6), count[1]
  local norm, norm_post = n:float('norm_coefficient', 0), n:float('norm_coefficient_post', 0)
  local r = rate
  if t > 0 then r = rate * (math.sqrt(1 - beta ^ t) / (1 - alpha ^ t)) end
  return grouped(n, 4, function(x, g, v, h)
    local slope = x * norm + g
    v = v * alpha + slope * (1 - alpha)
    h = h * beta + slope * slope * (1 - beta)
    local y = x - v * r / (h:sqrt() + eps)
    return y * (1 - norm_post), v, h
  end)(...)
end }

M[DOMAIN .. 'Momentum'] = { reads = { 2 }, run = function(n, rate, count, ...)
  local alpha, norm = n:float 'alpha', n:float 'norm_coefficient'
  local beta = count[1] > 0 and n:float 'beta' or 1
  local nesterov = n:string 'mode' == 'nesterov'
  return grouped(n, 3, function(x, g, v)
    local slope = x * norm + g
    v = v * alpha + slope * beta
    return x - (nesterov and slope + v * alpha or v) * rate, v
  end)(...)
end }

return M
