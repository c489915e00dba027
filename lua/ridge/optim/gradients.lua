-- SPDX-License-Identifier: MIT
--- The gradients an optimizer is about to use, as one list: what clipping and the handling of
--- numbers that are not finite work on.

local grad = require 'ridge.tensor.grad'

local M = {}

--- The gradients that have arrived: a list of {name =, grad =, param =}.  Writing into grad changes
--- what the step uses.
---@param optimizer table
---@return table
function M.list(optimizer)
  local list = {}
  for _, group in ipairs(optimizer.groups) do
    for i, p in ipairs(group.params) do
      local g = p.grad
      if g then list[#list + 1] = { name = group.names and group.names[i], grad = g, param = p } end
    end
  end
  return list
end

--- Call f while nothing is remembered for gradients.
---@param f function
---@param ... any its arguments
---@return any
function M.quietly(f, ...)
  return grad.no_grad(f, ...)
end

--- How many elements of all gradients hold something, as f(gradient) says with bools.
---@param list table
---@param f function
---@return number
function M.count(list, f)
  local n = 0
  for _, each in ipairs(list) do n = n + f(each.grad):to('f64'):sum():item() end
  return n
end

--- Elements of all gradients.
---@param list table
---@return number
function M.elements(list)
  local n = 0
  for _, each in ipairs(list) do n = n + each.grad.count end
  return n
end

return M
