-- SPDX-License-Identifier: MIT
--- Running statistics of batch normalisations whose batch is worked off in parts: those of all of
--- it, from the counts, means and squared deviations of the parts (Chan, Golub and LeVeque, 1979).
--
-- Nothing is read from a device, so a plan does it at each replay.

local class = require 'ridge.class'
local grad = require 'ridge.tensor.grad'
local norms = require 'ridge.nn.batchnorm'
local recompute = require 'ridge.tensor.recompute'

local M = {}

local Parts = class.class 'nn.Parts'

-- The batch normalisations of a tree, in one order for it and its copies.
local function norms_of(module)
  local list = {}
  local function visit(m)
    if class.is_a(m, norms.BatchNorm) then list[#list + 1] = m end
    for _, each in ipairs(m.children) do visit(each.module) end
  end
  visit(module)
  return list
end

-- What a part of a batch comes to; nil where the layer refuses it.
local function statistics(norm, x)
  local axes, _, count = norms.axes(norm, x)
  if not axes or count == 0 then return nil end
  local wide = x:detach():to(x.dtype == 'f64' and 'f64' or 'f32')
  local middle = wide:mean(axes, true)
  local centred = wide - middle
  local rest = centred:mean(axes, true):to 'f64' -- what rounding the mean has left
  local spread = (centred:square():mean(axes, true):to 'f64' - rest:square()) * count
  return { count = count, mean = (middle:to 'f64' + rest):reshape(norm.n),
    spread = spread:reshape(norm.n) }
end

---@param module table which keeps the statistics
function Parts:init(module)
  self.list, self.calls = norms_of(module), {}
  for i, norm in ipairs(self.list) do
    self.calls[i] = {}
    grad.no_grad(function()
      self.calls[i].mean, self.calls[i].var = norm.running_mean:clone(), norm.running_var:clone()
    end)
  end
end

--- Work a part off, and note what comes to each layer.
---@param module table the module, or its copy on another device
---@param f function
function Parts:part(module, f)
  local list, before = norms_of(module), {}
  for i, norm in ipairs(list) do
    local calls, n = self.calls[i], 0
    before[i] = norms.together[norm]
    norms.together[norm] = function(_, x)
      if recompute.again then return nil end
      n = n + 1
      calls[n] = calls[n] or {}
      calls[n][#calls[n] + 1] = grad.no_grad(statistics, norm, x)
      return nil
    end
  end
  local ok, err = pcall(f)
  for i, norm in ipairs(list) do norms.together[norm] = before[i] end
  if not ok then error(err, 0) end
end

-- Count, mean and squared deviations of several parts, on the device of the statistics.
local function joined(call, device)
  local count, mean, spread = 0, nil, nil
  for _, each in ipairs(call) do
    count = count + each.count
    local part = each.mean:to(device) * each.count
    mean = mean and mean + part or part
  end
  mean = mean / count
  for _, each in ipairs(call) do
    local part = each.spread:to(device) + (each.mean:to(device) - mean):square() * each.count
    spread = spread and spread + part or part
  end
  return count, mean, spread
end

--- The statistics that the layers had before the batch, and the whole batch in them.
function Parts:keep()
  grad.no_grad(function()
    for i, norm in ipairs(self.list) do
      local calls, mean, var = self.calls[i], norm.running_mean, norm.running_var
      if calls[1] then
        mean:copy_(calls.mean)
        var:copy_(calls.var)
      end
      for _, call in ipairs(calls) do
        local count, middle, spread = joined(call, mean.device)
        mean:mul_(1 - norm.momentum):add_((middle * norm.momentum):to(mean.dtype))
        var:mul_(1 - norm.momentum):add_((spread * (norm.momentum / (count - 1))):to(var.dtype))
      end
    end
  end)
end

M.Parts = Parts

return M
