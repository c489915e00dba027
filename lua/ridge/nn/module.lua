-- SPDX-License-Identifier: MIT
--- What every layer and container is: parameters by name, children, a mode, a call that knows where
-- in the network it is.

local class = require('ridge.class').class
local blame = require 'ridge.blame'
local in_no_grad = require('ridge.tensor.grad').no_grad

local Module = class('nn.Module')

-- -- Where we are, for errors -----------------------------------------------------------------

local stack, depth = {}, 0

--- The modules being called, outermost first, as text; empty outside any call.  Asked when an error
-- is made; the stack then starts anew, because an error ends every call on it.
local function path()
  local parts = {}
  for i = 1, depth do
    parts[i] = tostring(stack[i]):match('[^\n]*')
    stack[i] = nil
  end
  depth = 0
  return #parts > 0 and 'in ' .. table.concat(parts, ' > ') or nil
end
blame.context = path

local function leave(at, ...)
  depth = at
  return ...
end

--- Call the module: forward, with its place noted for errors.
---@param ... any what forward takes
---@return any what forward returns
function Module:__call(...)
  local at = depth
  depth = at + 1
  stack[depth] = self
  return leave(at, self:forward(...))
end

-- -- Parts
-- ------------------------------------------------------------------------------------------

--- A module without parameters or children; classes call Module.init(self) first.
function Module:init()
  self.children = {}
  self.training = false
end

--- Add a child module under a name; it counts in parameters, to, train and summary.
---@param name string|number
---@param module table
---@return table module
function Module:child(name, module)
  if type(module) ~= 'table' or type(module.forward) ~= 'function' then
    blame.raise(('%s: a module is expected as child, got %s'):format(getmetatable(self).__name,
      blame.show(module)))
  end
  self.children[#self.children + 1] = { name = tostring(name), module = module }
  return module
end

--- Parameters of the module and its children: a list of {name =, tensor =, trainable =}.
---@return table
function Module:parameters()
  local list = {}
  for _, c in ipairs(self.children) do
    for _, p in ipairs(c.module:parameters()) do
      list[#list + 1] = { name = c.name .. '.' .. p.name, tensor = p.tensor,
                          trainable = p.trainable }
    end
  end
  return list
end

--- How many numbers are trained, and how many are stored.
---@return number trainable
---@return number stored
function Module:num_parameters()
  local trainable, stored = 0, 0
  for _, p in ipairs(self:parameters()) do
    stored = stored + p.tensor.count
    if p.trainable then trainable = trainable + p.tensor.count end
  end
  return trainable, stored
end

--- Bytes of what is stored.
---@return number
function Module:num_bytes()
  local bytes = 0
  for _, p in ipairs(self:parameters()) do bytes = bytes + p.tensor.bytes end
  return bytes
end

--- Training mode on or off, here and below.
---@param on boolean|nil true when left out
---@return table self
function Module:train(on)
  self.training = on ~= false
  for _, c in ipairs(self.children) do c.module:train(on) end
  return self
end

--- Evaluation mode: dropout does nothing.
---@return table self
function Module:eval()
  return self:train(false)
end

--- Convert the children to another element type, in place.
---@param dtype string 'f32', 'f64', 'bf16' or 'f16'
---@return table self
function Module:to(dtype)
  for _, c in ipairs(self.children) do c.module:to(dtype) end
  return self
end

--- The parameters by name: what a checkpoint holds of the module.
---@return table tensors name to tensor
function Module:state()
  local out = {}
  for _, p in ipairs(self:parameters()) do out[p.name] = p.tensor end
  return out
end

--- Take the parameters from tensors by name. All of them fit, or nothing is changed.
---@param tensors table name to tensor, as `state` gives them
---@return table self
function Module:load_state(tensors)
  local what = getmetatable(self).__name .. ':load_state'
  if type(tensors) ~= 'table' then
    blame.raise(('%s: a table of tensors is expected, got %s'):format(what, blame.show(tensors)),
      'EARG')
  end
  local own, rest = self:state(), {}
  for name in pairs(tensors) do rest[name] = true end
  for name, x in pairs(own) do
    local given = tensors[name]
    if given == nil then
      blame.raise(('%s: %s is missing: the tensors are of another model'):format(what, name),
        'EARG')
    end
    if given:describe() ~= x:describe() then
      blame.raise(('%s: %s is %s, and here %s: the tensors are of another model'):format(what, name,
        given:describe(), x:describe()), 'ESHAPE')
    end
    rest[name] = nil
  end
  local more = next(rest)
  if more then
    blame.raise(('%s: there is no %s here: the tensors are of another model'):format(what,
      tostring(more)), 'EARG')
  end
  in_no_grad(function()
    for name, x in pairs(own) do x:copy_(tensors[name]) end
  end)
  return self
end

--- One line, and a line for each child.
function Module:__tostring()
  local lines = { getmetatable(self).__name }
  for _, c in ipairs(self.children) do
    lines[#lines + 1] = ('  (%s) %s'):format(c.name, (tostring(c.module):gsub('\n', '\n  ')))
  end
  return table.concat(lines, '\n')
end

return Module
