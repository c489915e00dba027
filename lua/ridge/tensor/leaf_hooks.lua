-- SPDX-License-Identifier: MIT
--- Functions that are called in a backward pass when the gradient of a leaf is complete, as
--- PyTorch's post-accumulate-grad hooks are. The core knows a number for each leaf that has some.

local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local class = require('ridge.class').class
local state = require 'ridge.state'

--- count: leaves that have hooks; without any, a pass does not stop for them. begun: the passes
--- that would.
local M = { count = 0, begun = 0 }

-- The hooks of a tensor: {tensor = weak, id =, [1] = {f}, ...}. A tensor that is held nowhere else
-- must go, and what passes hold of it has no number then.
local by_id = {}
local WEAK = { __mode = 'v' }
local aside = setmetatable({}, { __mode = 'k' }) -- by tensor: where gradients are off

local passed = {} -- what is called behind a pass, in the order in which it was asked for: {owner =
-- weak, f}; functions of several owners may send messages, which are to have one order everywhere

local NO_GRAD = state.exchange(C.rg_grad_mode)

-- One number for each storage, which several tensors may look into.
local function watch(x, entry, number)
  local id = tonumber(C.rg_grad_watched(x._t))
  if not by_id[id] then -- 0, or that of a tensor that is gone
    id = number()
    call.check(C.rg_grad_watch(x._t, id), 'on_gradient')
    by_id[id], M.count = {}, M.count + 1
  end
  entry.id = id
  table.insert(by_id[id], entry)
end

local function find(x)
  local list = by_id[tonumber(C.rg_grad_watched(x._t))]
  for _, entry in ipairs(list or {}) do
    if rawequal(entry.tensor[1], x) then return entry end
  end
end

-- Take an entry from its storage's; the last one ends the watching.
local function leave(entry)
  local list, id = by_id[entry.id], entry.id
  entry.id = nil
  for i = #(list or {}), 1, -1 do
    if list[i] == entry then table.remove(list, i) end
  end
  if not list or #list > 0 then return end
  by_id[id], M.count = nil, M.count - 1
  local x = entry.tensor[1]
  if x and x._t ~= nil and tonumber(C.rg_grad_watched(x._t)) == id then
    call.check(C.rg_grad_watch(x._t, 0))
  end
end

local GradientHook = class('GradientHook')

-- f: called until it is removed; begun: the pass behind which it was made; last: behind the others.
function GradientHook:init(f, entry, last)
  self.f, self.entry, self.begun, self.last = f, entry, M.begun, last or false
end

--- The function is called no more; twice does no harm.
function GradientHook:remove()
  local entry = self.entry
  self.f = nil
  for i = #entry, 1, -1 do
    if entry[i] == self then table.remove(entry, i) end
  end
  if #entry > 0 then return end
  if entry.id then leave(entry) end
  local x = entry.tensor[1]
  if x and aside[x] == entry then aside[x] = nil end
end

function GradientHook:__tostring()
  return self.f and 'GradientHook' or 'GradientHook (removed)'
end

--- Let a function be called whenever the gradient of a leaf is complete.
---@param x Tensor
---@param f function
---@param number function gives a number nobody else has
---@param last boolean|nil it sends the gradient away, and is called behind those that change it
---@return table handle
function M.add(x, f, number, last)
  local entry = find(x)
  if not entry then
    entry = { tensor = setmetatable({ x }, WEAK) }
    watch(x, entry, number)
  end
  local handle = GradientHook(f, entry, last)
  entry[#entry + 1] = handle
  return handle
end

local function tell_some(list, pass, last)
  for _, entry in ipairs { unpack(list) } do -- hooks may end each other
    local x = entry.tensor[1]
    if not x or x._t == nil then
      leave(entry)
    else
      for _, handle in ipairs { unpack(entry) } do
        if handle.f and handle.last == last and handle.begun < pass and x._t ~= nil then
          handle.f(x)
        end
      end
    end
  end
end

local function tell_all(list, pass)
  tell_some(list, pass, false)
  tell_some(list, pass, true)
end

--- Behind each pass that stops for leaves f(ended) is called, ended false where it failed; as long
--- as its owner lives. Owners are called in the order in which they asked.
---@param owner table
---@param f function
function M.behind(owner, f)
  for i = #passed, 1, -1 do
    if passed[i].owner[1] == nil then table.remove(passed, i) end
  end
  passed[#passed + 1] = { owner = setmetatable({ owner }, WEAK), f = f }
end

--- A pass that stopped for leaves is over.
---@param ended boolean
function M.over(ended)
  for _, each in ipairs { unpack(passed) } do -- one may ask for more
    if each.owner[1] ~= nil then state.with(NO_GRAD, { value = 0 }, each.f, ended) end
  end
end

--- The gradient of the leaf with a number is complete.
---@param id number
---@param pass number which of those begun it is; hooks made since then are not of it
function M.tell(id, pass)
  if by_id[id] then state.with(NO_GRAD, { value = 0 }, tell_all, by_id[id], pass) end
end

--- The leaf with a number is gone.
---@param id number
function M.gone(id)
  if not by_id[id] then return end
  for _, entry in ipairs(by_id[id]) do entry.id = nil end
  by_id[id], M.count = nil, M.count - 1
end

--- Gradients of a tensor are about to be switched off: its hooks wait until they are on again.
---@param x Tensor
function M.set_aside(x)
  local entry = M.count > 0 and find(x)
  if entry then
    leave(entry)
    aside[x] = entry
  end
end

--- They are on again.
---@param x Tensor
---@param number function gives a number nobody else has
function M.resume(x, number)
  local entry = aside[x]
  if not entry then return end
  aside[x] = nil
  watch(x, entry, number)
end

return M
