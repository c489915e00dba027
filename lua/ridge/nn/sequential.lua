-- SPDX-License-Identifier: MIT
--- Modules one after the other.

local class = require('ridge.class').class
local blame = require 'ridge.blame'
local recompute = require('ridge.tensor.recompute').recompute
local Module = require 'ridge.nn.module'

local Sequential = class('nn.Sequential', Module)

--- Modules one after the other: nn.Sequential(a, b) or nn.Sequential():add(a):add(b).
---@param ... table modules
function Sequential:init(...)
  Module.init(self)
  for i = 1, select('#', ...) do self:add((select(i, ...))) end
end

--- Put a module behind the last one.
---@param module table
---@return table self
function Sequential:add(module)
  if type(module) ~= 'table' or type(module.forward) ~= 'function' then
    blame.raise(('nn.Sequential: a module is expected, got %s'):format(type(module)))
  end
  self:child(#self.children + 1, module)
  return self
end

--- Each module applied to what the one before gave.
---@param x Tensor
---@return Tensor
function Sequential:forward(x)
  local children = self.children
  if self.segments and self.training then
    for _, segment in ipairs(self.segments) do x = recompute(segment, x) end
    return x
  end
  for i = 1, #children do x = children[i].module(x) end
  return x
end

--- Cut the modules into so many segments of neighbours, each of which keeps only its input for the
--- way back, which computes it once more (ridge.recompute): memory as the number of segments and
--- the longest of them together, one more pass forward.
---@param segments number|boolean|nil how many; true or nothing: the root of the number of modules;
---  false: as before
---@return table self
function Sequential:recompute(segments)
  local n = #self.children
  if segments == false then
    self.segments = nil
    return self
  end
  segments = type(segments) == 'number' and segments or math.ceil(math.sqrt(n))
  if segments ~= math.floor(segments) or segments < 1 or segments > math.max(n, 1) then
    blame.raise(('nn.Sequential:recompute: %s segments of %d modules'):format(tostring(segments),
      n))
  end
  self.segments = {}
  for s = 1, segments do
    local first, last = math.floor(n * (s - 1) / segments) + 1, math.floor(n * s / segments)
    self.segments[s] = function(x)
      for i = first, last do x = self.children[i].module(x) end
      return x
    end
  end
  return self
end

--- How many modules there are.
---@return number
function Sequential:len()
  return #self.children
end

return Sequential
