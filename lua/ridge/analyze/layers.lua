-- SPDX-License-Identifier: MIT
--- The modules of a net as layers: a row each, with what it holds.

local ffi = require 'ffi'
local mode = require 'ridge.tensor.mode'

local M = {}

local function identity(tensor) return tonumber(ffi.cast('intptr_t', tensor._t)) end

--- The number of a tensor's memory, as rg_saved has it.
---@param tensor Tensor
---@return number
function M.memory_of(tensor)
  return tonumber(ffi.cast('intptr_t', ffi.cast('void *', tensor._t._storage)))
end

local Layers = {}
Layers.__index = Layers

-- The row of a module, a new one where it has none.
local function row_of(self, module, path, part)
  local row = self.by_module[module]
  if not row then
    row = { name = path, class = getmetatable(module).__name, module = module, part = part,
      calls = 0, params = 0, trainable = 0, buffers = 0, bytes = 0, tied = {} }
    self.by_module[module] = row
    self.list[#self.list + 1] = row
  end
  return row
end

local function walk(self, module, prefix, path)
  if self.by_module[module] then return end
  row_of(self, module, path, true)
  for _, child in ipairs(module.children) do
    walk(self, child.module, prefix .. child.name .. '.', prefix .. child.name)
  end
end

-- A tensor in several places is the first one's: it is there once.
local function hold(self, net)
  local first = {}
  for _, place in ipairs(mode.places(net)) do
    local row, key = self.by_module[place.module], identity(place.tensor)
    if first[key] then
      row.tied[#row.tied + 1] = { name = place.own, to = first[key] }
    else
      first[key] = place.name
      local field = mode.is_learned(place) and 'params' or 'buffers'
      row[field] = row[field] + place.tensor.count
      row.trainable = row.trainable + (place.trainable and place.tensor.count or 0)
      row.bytes = row.bytes + place.tensor.bytes
    end
    self.held[M.memory_of(place.tensor)] = true
  end
end

--- The layers of a net, in the order of its tree; modules that are called and no part of it are
--- added as they are heard of.
---@param net table module
---@return table layers list, by_path
function M.of(net)
  local self = setmetatable({ list = {}, by_module = {}, by_path = {}, held = {}, parts = {} },
    Layers)
  walk(self, net, '', getmetatable(net).__name)
  hold(self, net)
  return self
end

--- A module is called (ranges.HEARD): from now on its path is known.
---@param path string
---@param module table|nil nil: a part of the one that is being called
---@param bytes number of the memory of its arguments
function Layers:hear(path, module, bytes)
  if not module then
    local whole = self.by_path[path:match '^(.*)%.' or ''] or self.list[1]
    self.by_path[path], self.parts[path], whole.has_parts = whole, true, true
    return
  end
  local row = row_of(self, module, path, false)
  self.by_path[path] = self.by_path[path] or row -- of two with one name the first one's is for both
  row.called = row.called or path
  row.inputs = row.inputs or {} -- of each call
  row.inputs[#row.inputs + 1] = bytes
end

local SUMS = { 'params', 'trainable', 'buffers', 'bytes' }

-- What holds parameters for the module around it, and is never called, is no layer.
local function fold(self, row)
  for _, child in ipairs(row.module.children) do
    local part = self.by_module[child.module]
    if part and not part.called and part ~= row then
      for _, field in ipairs(SUMS) do row[field] = row[field] + part[field] end
      for _, tie in ipairs(part.tied) do row.tied[#row.tied + 1] = tie end
      part.folded = true
    end
  end
end

--- All were called that will be: names are as they were called.
function Layers:settle()
  for _, row in ipairs(self.list) do
    row.name = row.called or row.name
    if row.has_parts then fold(self, row) end
  end
  for i = #self.list, 1, -1 do
    if self.list[i].folded then table.remove(self.list, i) end
  end
end

--- The layer whose path this is, or that of the nearest one around it; nil where there is none.
---@param path string
---@return table|nil row
function Layers:at(path)
  while path do
    if self.by_path[path] then return self.by_path[path] end
    path = path:match '^(.*)%.'
  end
end

return M
