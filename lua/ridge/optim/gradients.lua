-- SPDX-License-Identifier: MIT
--- The gradients an optimizer is about to use, as one list: what clipping and the handling of
--- numbers that are not finite work on.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local grad = require 'ridge.tensor.grad'
local ref = require 'ridge.ffi.ref'

local M = {}

--- The accumulated gradients: a list of {name =, grad =, param =}.  Writing into grad changes
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

-- Lists by device, in the order of their first gradient.
local function by_device(list)
  local parts, at = {}, {}
  for _, each in ipairs(list) do
    local device = each.grad.device
    if not at[device] then
      at[device] = {}
      parts[#parts + 1] = at[device]
    end
    table.insert(at[device], each.grad)
  end
  return parts
end

-- The norm of n tensors of one device.
local function norm_at(pointers, n)
  call.settle()
  local list = ffi.new('const rg_tensor *[?]', n, pointers)
  local status = C.rg_total_norm(list, n, ref.slot)
  if status ~= 0 then call.fail(status, 'grad_norm') end
  return ref.wrap(ref.slot[0])
end

-- Together with the norm of those before.
local function beside(norm, part)
  return norm and (norm:square() + part:to(norm.device):square()):sqrt() or part
end

--- The Euclidean norm of all gradients together, on the device of the first; nil where none is.
---@param list table
---@return Tensor|nil norm f64
function M.norm(list)
  local norm
  for _, grads in ipairs(by_device(list)) do
    local pointers = {}
    for i, g in ipairs(grads) do pointers[i] = g._t end
    norm = beside(norm, norm_at(pointers, #grads))
  end
  return norm
end

-- Gradients of parameters of a device, as references to be released: a handle
-- would hold their memory until the collector comes.
local function arrived(params, at)
  local held = {}
  for _, i in ipairs(at) do
    local st = C.rg_grad_of(params[i]._t, ref.slot)
    if st ~= 0 then call.fail(st) end
    local there = ref.slot[0] -- read once: whatever runs behind it may use the slot
    if there ~= nil then held[#held + 1] = there end
  end
  return held
end

--- The same of what an optimizer is about to use.
---@param optimizer table
---@return Tensor|nil norm f64
function M.norm_of(optimizer)
  local held, order = {}, {}
  for _, group in ipairs(optimizer.groups) do
    for _, place in ipairs(group.places) do
      local device = place.device
      if not held[device] then
        held[device] = {}
        order[#order + 1] = device
      end
      for _, g in ipairs(arrived(group.params, place.at)) do table.insert(held[device], g) end
    end
  end
  local norm
  for _, device in ipairs(order) do
    local list = held[device]
    if #list > 0 then
      local ok, part = pcall(norm_at, list, #list)
      for _, g in ipairs(list) do C.rg_tensor_release(g) end
      if not ok then error(part, 0) end
      norm = beside(norm, part)
    end
  end
  return norm
end

--- How many elements of all gradients hold something, as f(gradient) says with bools, on the device
--- of the first one; nil where there is none.
---@param list table
---@param f function of a gradient
---@return Tensor|nil f64
function M.counted(list, f)
  local all
  for _, grads in ipairs(by_device(list)) do
    local sum
    for _, g in ipairs(grads) do
      local here = f(g):to('f64'):sum()
      sum = sum and sum + here or here
    end
    all = all and all + sum:to(all.device) or sum
  end
  return all
end

--- The same as a number.
---@param list table
---@param f function
---@return number
function M.count(list, f)
  local n = M.counted(list, f)
  return n and n:item() or 0
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
