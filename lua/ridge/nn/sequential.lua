-- SPDX-License-Identifier: MIT
--- Modules one after the other.

local class = require('ridge.class').class
local blame = require 'ridge.blame'
local recompute = require('ridge.tensor.recompute').recompute
local Module = require 'ridge.nn.module'

local Sequential = class('nn.Sequential', Module)

--- Modules one after the other: nn.Sequential(a, b) or nn.Sequential():add(a):add(b). net[i] is the
--- i-th of them, net[-1] the last one, and #net how many there are; net[i] = module replaces it.
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

-- A child is what stands at net[i], so that net[i] = other replaces it for all who walk the
-- children: Lua asks nobody before it writes over a field that is there.
local function standing(entry, key)
  if key ~= 'module' then return nil end
  local net, at = entry.net, entry.at
  local module = rawget(net, at)
  if module == entry.seen then return module end
  if type(module) ~= 'table' or type(module.forward) ~= 'function' then
    blame.raise(('nn.Sequential: a module is expected at %d, got %s'):format(at,
      blame.show(module)))
  end
  entry.seen = module -- a circle ends here
  if Module.holds(module, net) then
    entry.seen = false
    blame.raise(('nn.Sequential: the module at %d holds this one: a module cannot be a child of '
      .. 'itself'):format(at))
  end
  return module
end

local Entry = { __index = standing }

function Sequential:_entry(name, module)
  local at = tonumber(name)
  rawset(self, at, module)
  return setmetatable({ name = name, net = self, at = at, seen = module }, Entry)
end

-- The modules first .. last as one function. It holds them itself: the backward pass, which calls
-- it again, finds those of the forward pass, whatever was added meanwhile.
local function part(children, first, last)
  local modules = {}
  for i = first, last do modules[#modules + 1] = children[i].module end
  return function(x)
    for _, module in ipairs(modules) do x = module(x) end
    return x
  end
end

--- Each module applied to what the one before gave.
---@param x Tensor
---@return Tensor
function Sequential:forward(x)
  local children, n = self.children, #self.children
  if not (self.segments and self.training) then
    for i = 1, n do x = children[i].module(x) end
    return x
  end
  local segments = self.segments == true and math.ceil(math.sqrt(n)) or self.segments
  for s = 1, segments do
    local first, last = math.floor(n * (s - 1) / segments) + 1, math.floor(n * s / segments)
    x = recompute(part(children, first, last), x)
  end
  return x
end

--- Cut the modules into so many segments of neighbours, each of which keeps only its input for the
--- backward pass, which computes it once more (ridge.recompute): memory as the number of segments
--- and the longest of them together, one more pass forward. The modules are those of each call:
--- what is added later belongs to a segment too.
---@param segments number|boolean|nil how many; true or nothing: the root of the number of modules;
---  false: as before
---@return table self
function Sequential:recompute(segments)
  if segments == nil then segments = true end
  if type(segments) ~= 'boolean' and (type(segments) ~= 'number' or segments < 1
      or segments ~= math.floor(segments) or segments > math.max(#self.children, 1)) then
    blame.raise(('nn.Sequential:recompute: %s segments of %d modules'):format(blame.show(segments),
      #self.children))
  end
  self.segments = segments
  return self
end

--- How many modules there are.
---@return number
function Sequential:len()
  return #self.children
end

return Sequential
