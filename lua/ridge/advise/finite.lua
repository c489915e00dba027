-- SPDX-License-Identifier: MIT
--- Where losses that are not finite come from: the batch, the parameters, the rate, or an operation
--- that has to be looked for. Each has another cure.

local grad = require 'ridge.tensor.grad'
local step = require 'ridge.analyze.step'

local M = {}

-- Elements of tensors that are inf or nan, all of them, and how many tensors have such ones.
local function counted(tensors)
  local c = { bad = 0, all = 0, with = 0, n = #tensors }
  for _, x in ipairs(tensors) do
    local all = 1
    for i = 1, x.ndim do all = all * x:size(i) end
    if x.dtype:find '^b?f%d' and all > 0 then
      local wide = x.dtype:find '^f8' and x:to 'f32' or x
      local bad = all - wide:isfinite():to('f64'):sum():item()
      c.bad, c.all, c.with = c.bad + bad, c.all + all, c.with + (bad > 0 and 1 or 0)
    end
  end
  return c
end

local MOST_BATCHES = 1000

local function tensors_of(...)
  local list = {}
  step.each_tensor({ ... }, function(x) list[#list + 1] = x end)
  return list
end

-- Batches with such values, and how many were looked at: those of the loader, whose order stays
-- where it was, or the one that is known.
local function of_batches(s)
  local loader, found = s.loader, { bad = 0, n = 0, values = 0 }
  local function look(...)
    local c = counted(tensors_of(...))
    found.bad, found.n = found.bad + (c.bad > 0 and 1 or 0), found.n + 1
    found.values = found.values + c.bad
  end
  if not loader then
    look({ unpack(s.args or {}, 1, s.args and s.args.n or 0) }, s.y)
    return found
  end
  local before = loader.state and loader:state()
  for x, y in loader:each() do
    look(x, y)
    if found.n == MOST_BATCHES then break end
  end
  if before and loader.load_state then loader:load_state(before) end
  return found
end

local function of_parameters(s)
  local list = {}
  for _, p in ipairs(s.net and s.net:parameters() or {}) do list[#list + 1] = p.tensor end
  return counted(list)
end

--- Why losses are not finite, and what to try, the cure first.
---@param s table subject
---@param rates table what smaller rates did from here: a list of { rate, falls }
---@param grew boolean they were finite at first, and rose
---@return string why
---@return string[] names of what to try
function M.cause(s, rates, grew)
  local batches = grad.no_grad(of_batches, s)
  if batches.bad > 0 then
    return ('losses are not finite, and %s not either, in %d of %d batches: it begins there')
      :format(batches.values == 1 and 'one value is' or batches.values .. ' values are',
      batches.bad, batches.n), { 'clean_batch', 'anomaly' }
  end
  local held = grad.no_grad(of_parameters, s)
  if held.bad > 0 then
    return ('losses are not finite, and neither are %d of %d parameter tensors by now: no step '
      .. 'from here mends them'):format(held.with, held.n), { 'begin_anew', 'smaller_rate',
      'anomaly' }
  end
  for _, each in ipairs(rates) do
    if each.falls then
      return ('losses are not finite; from here, at a rate of %g, they are, and do not rise')
        :format(each.rate), { 'smaller_rate', 'anomaly' }
    end
  end
  if grew then
    return 'losses were finite, rose, and are not any more: the rate is too high, and from here a '
      .. 'smaller one comes too late', { 'begin_anew', 'smaller_rate', 'anomaly' }
  end
  return 'losses are not finite, though batches and parameters are', { 'anomaly',
    'smaller_rate' }
end

return M
