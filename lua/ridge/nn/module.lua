-- SPDX-License-Identifier: MIT
--- What every layer and container is: parameters by name, children, a mode, a call that knows where
--- in the network it is.

local ffi = require 'ffi'
local class = require('ridge.class').class
local blame = require 'ridge.blame'
local folded = require('ridge.nn.shown').folded
local guard = require 'ridge.guard'
local late = require 'ridge.late'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local in_no_grad = require('ridge.tensor.grad').no_grad
local mode = require 'ridge.tensor.mode'
local ranges = require 'ridge.ranges'
local parameter = require 'ridge.nn.parameter'
local recompute = require 'ridge.tensor.recompute'
local state = require 'ridge.state'

local Module = class('nn.Module')
Module.__index, Module.__newindex = parameter.index, parameter.newindex

-- -- Where we are, for errors -----------------------------------------------------------------

-- Weak: what is called is held by its caller, and a network that nobody holds any more is not held
-- for having been called last, its weights and their packed copies with it.
local function new_stack() return setmetatable({}, { __mode = 'v' }) end

local stack, depth = new_stack(), 0

state.each_has(function(calls) -- each coroutine is in calls of its own
  local before = { stack = stack, depth = depth }
  stack, depth = calls and calls.stack or new_stack(), calls and calls.depth or 0
  return before
end)

local pass, pass_one -- what runs a call
local original = guard.original -- a border for each module of a network would cost too much

-- How many calls are under way: an error of Lua's own leaves those on the stack that it ended.
local function living()
  local n, level = 0, 3
  local info = debug.getinfo(level, 'f')
  while info do
    n = (info.func == pass or info.func == pass_one) and n + 1 or n
    level = level + 1
    info = debug.getinfo(level, 'f')
  end
  return n
end

--- The modules being called, outermost first, as text; empty outside any call.  Asked when an error
--- is made; the stack then starts again, because an error ends every call on it.
local function path()
  local parts = {}
  for i = math.max(1, depth - living() + 1), depth do
    local kind = getmetatable(stack[i])
    local ok, text = true, kind.__name
    -- an error is told whatever a module says of itself
    if kind.__tostring ~= Module.__tostring then ok, text = pcall(tostring, stack[i]) end
    parts[#parts + 1] = ok and text:match '[^\n]*' or kind.__name
  end
  depth = 0 -- entries stay: a call that catches the error goes on
  return #parts > 0 and 'in ' .. table.concat(parts, ' > ') or nil
end
blame.context = path

local function leave(at, ...)
  depth = at
  return ...
end

-- What a module that recomputes, or has parametrised parameters, does for forward.
local function wrapped(self, ...)
  if self.recomputes and self.training then return recompute.recompute(self.recomputes, ...) end
  if next(self._parametrizations or {}) then
    return parameter.within(self, original(self.forward), self, ...)
  end
  return original(self.forward)(self, ...)
end

local function begin(self)
  depth = depth + 1
  stack[depth] = self
  if mode.hook then mode.hook(self) end
  if not (self._wrapped or self.forward) then
    blame.raise(('%s: it has no forward, which a class of modules defines'):format(
      getmetatable(self).__name))
  end
end

function pass(self, ...)
  local at = depth
  begin(self)
  if self._wrapped then return leave(at, wrapped(self, ...)) end
  return leave(at, original(self.forward)(self, ...))
end

-- The usual call. LuaJIT compiles nothing that begins within a function of any number of arguments
-- and goes on behind it, which is most of a network's call.
function pass_one(self, x)
  local at = depth
  begin(self)
  if self._wrapped then return leave(at, wrapped(self, x)) end
  return leave(at, original(self.forward)(self, x))
end

local function ended(ok, ...)
  if not ok then
    depth = 0
    error((...), 0)
  end
  return ...
end

--- Call the module: forward, with its place noted for errors.
---@param ... any what forward takes
---@return any what forward returns
function Module:__call(...)
  if select('#', ...) == 1 then
    local x = ...
    if ranges.on then return ranges.call_one(pass_one, ended, self, x) end
    -- the usual call needs no border, which costs as much as a small layer
    if depth > 0 or ref.is(x) then return pass_one(self, x) end
  elseif ranges.on then
    return ranges.call(pass, ended, self, ...)
  elseif depth > 0 then
    return pass(self, ...)
  end
  return ended(xpcall(pass, guard.handler, self, ...))
end

--- Keep only the module's input for the backward pass, which computes it once more
--- (ridge.recompute): less memory, more time. Nothing changes in evaluation mode.
---@param on boolean|nil true when left out
---@return table self
function Module:recompute(on)
  options.flag(on, 'recompute', 'on')
  self.recomputes = on ~= false and function(...)
    return original(self.forward)(self, ...)
  end or nil
  parameter.wrap(self)
  return self
end

-- -- Parts
-- ------------------------------------------------------------------------------------------

--- A module without parameters or children, in training mode; classes call Module.init(self) first.
function Module:init()
  self.children = {}
  self.params, self._tensors = {}, {} -- in order, and by name
  self._wrapped = false -- has pass more to do than forward?
  self.training = true
end

--- Make a tensor a parameter: it is self[name], it is trained, saved and converted with the module.
--- Another one of its shape and type may be assigned later, also one that is the parameter of
--- another module: they are tied then.
---@param name string
---@param tensor Tensor
---@return Tensor tensor
function Module:param(name, tensor)
  return parameter.add(self, name, tensor, true)
end

--- Make a tensor part of the module's state that is not trained (running statistics, fixed draws).
---@param name string
---@param tensor Tensor
---@return Tensor tensor
function Module:buffer(name, tensor)
  return parameter.add(self, name, tensor, false)
end

--- Say that modules of this kind can have parameters that this one has not: assigning one is a
--- mistake then, and no plain field.
---@param ... string their names
---@return table self
function Module:without(...)
  self._absent = self._absent or {}
  for i = 1, select('#', ...) do self._absent[select(i, ...)] = true end
  return self
end

--- Is it another module, or one that has the other among its children or further below?
---@param other table module
---@return boolean
function Module:holds(other)
  if self == other then return true end
  for _, c in ipairs(type(self.children) == 'table' and self.children or {}) do
    if Module.holds(c.module, other) then return true end
  end
  return false
end

--- Add a child module under a name; it counts in parameters, to, train and summary. It stays in
--- the mode it is in.
---@param name string|number
---@param module table
---@return table module
function Module:child(name, module)
  if type(module) ~= 'table' or type(module.forward) ~= 'function' then
    blame.raise(('%s: a module is expected as child, got %s'):format(getmetatable(self).__name,
      blame.show(module)))
  end
  if Module.holds(module, self) then
    blame.raise(('%s: a module cannot be a child of itself'):format(getmetatable(self).__name))
  end
  name = options.name(tostring(name), getmetatable(self).__name .. ': child')
  self.children[#self.children + 1] = self:_entry(name, module)
  return module
end

-- What stands in the list of children; containers have their own.
function Module:_entry(name, module) -- luacheck: no self
  return { name = name, module = module }
end

--- Parameters of the module and its children: a list of {name =, tensor =, trainable =, module =,
--- own = its name there}. What is used in two places is there once, under its first name.
---@return table
function Module:parameters()
  local list, seen = {}, {}
  for _, p in ipairs(mode.places(self)) do
    local id = tonumber(ffi.cast('intptr_t', p.tensor._t))
    if not seen[id] then
      seen[id] = true
      list[#list + 1] = p
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

-- The trained ones want gradients.
local function want_gradients(self)
  for _, p in ipairs(self.params) do
    if p.trainable then p.tensor:requires_grad_() end
  end
end

-- Raise where a module, here or below, stays in evaluation mode: before any is another.
local function check_training(self)
  if rawget(self, '_quant') then self:train() end -- what quant made refuses as a whole
  if self._refuse_training then self:_refuse_training() end
  for _, c in ipairs(self.children) do check_training(c.module) end
end

--- Training mode, which modules begin in, on or off, here and below. On, what is trained wants
--- gradients; off, it keeps wanting them: ridge.inference is what saves memory while evaluating.
---@param on boolean|nil true when left out
---@return table self
function Module:train(on)
  on = options.flag(on, 'train', 'on') ~= false
  if on then check_training(self) end
  self.training = on
  if on then want_gradients(self) end
  for _, c in ipairs(self.children) do c.module:train(on) end
  return self
end

--- Take the parameters, here and below, out of training, or back into it: frozen ones get no
--- gradient and optimizers leave them alone.
---@param on boolean|nil true (frozen) when left out
---@return table self
function Module:freeze(on)
  local frozen = options.flag(on, 'freeze', 'on') ~= false
  for _, p in ipairs(self.params) do
    if frozen and p.trainable then
      p.frozen, p.trainable = true, false
      p.tensor:requires_grad_(false)
    elseif not frozen and p.frozen then
      p.frozen, p.trainable = nil, true
    end
  end
  if self.training then want_gradients(self) end
  for _, c in ipairs(self.children) do c.module:freeze(on) end
  return self
end

--- Evaluation mode: dropout does nothing.
---@return table self
function Module:eval()
  return self:train(false)
end

--- Convert the parameters to another element type, where whole numbers stay, or bring them to
--- another device, in place. They are other tensors then, with fresh moments in an optimizer.
---@param name string 'f32', 'f64', 'bf16', 'f16', 'cpu' or 'cuda:0'
---@param made table|nil what was converted already: shared parameters stay shared
---@return table self
function Module:to(name, made)
  made = parameter.made(made)
  for _, p in ipairs(self.params) do parameter.convert(self, p.name, name, made) end
  for _, c in ipairs(self.children) do c.module:to(name, made) end
  return self
end

--- Compute a parameter of this module from others in each pass, with gradients to those: a mask,
--- two factors of low rank, a rounding. What it is computed from is what is trained, saved and
--- converted: one tensor under the parameter's name, several as name_1, name_2.
---@param name string
---@param given table {forward = function(original, ...), right_inverse = function(tensor),
---  buffers = {mask = Tensor}}; right_inverse gives the originals of a tensor, and where it is left
---  out the tensor itself is the original, and none can be assigned later. Buffers are saved, moved
---  and copied with the module, as weight_mask; forward gets them in a table behind the originals
---@return table self
-- >> local layer, keep = ridge.nn.Linear(3, 2), ridge.tensor({ { 1, 0, 1 }, { 0, 1, 1 } })
-- >> layer:parametrize('weight', { forward = function(w) return w * keep end })
-- >> return layer.weight
function Module:parametrize(name, given)
  return parameter.parametrize(self, name, given)
end

--- Let a parametrised parameter be what is computed for it now.
---@param name string
---@return table self
function Module:remove_parametrization(name)
  return parameter.remove_parametrization(self, name)
end

--- A module with copies of the parameters, in the same mode; what is tied stays tied among them.
---@return table
function Module:clone()
  return require('ridge.nn.copy').clone(self)
end

--- What each layer of the net holds, computes, keeps for the backward pass, and takes: one step
--- with x is counted, others are timed, and nothing of it stays: parameters, running statistics,
--- gradients, modes and streams of random numbers are as before. It prints as a table.
---
--- FLOPs are those of products (matrices, convolutions, attention), 2 for each multiply-add, as
--- published figures count them; what activations, normalisation and others do besides is
--- other_flops. A module that is called twice is there once, with its parameters once, and its
--- FLOPs and times of both calls. Where ceilings of this machine are known (ridge.calibrate), times
--- are held against them.
---@param x any what the module is called with: a tensor, or a table of them
---@param opts table|nil {more = {k, v}: further arguments, backward = the net's mode, loss =
---  function, rounds = 4 .. 30, or 0: nothing is timed, roof = true}
---@return table analysis params, bytes, flops, multiply_adds, other_flops, backward_flops,
---  saved_bytes, ms, backward_ms, step_ms, layers {name, class, calls, params, bytes, mb, flops,
---  other_flops, backward_flops, saved_bytes, ms, backward_ms, share, gflops, roof, roof_share,
---  ...}, outside (what is in no layer), notes; find_bottlenecks(), what_if{}, text{}
-- >> local net = ridge.nn.Sequential(ridge.nn.Linear(8, 16), ridge.nn.ReLU())
-- >> return net:analyze(ridge.randn(32, 8))
function Module:analyze(x, opts)
  local module, field = unpack(late.above.analyze)
  return require(module)[field](self, x, opts)
end

--- Write the net to a safetensors file from which ridge.nn.load makes it again: its parameters, and
--- which modules of ridge's own it is made of. A module of your own is refused: keep its state with
--- ridge.save, and take it with load_state.
---@param file string its path
-- >> ridge.nn.Linear(3, 2):save '/tmp/layer.safetensors'
function Module:save(file)
  local module, field = unpack(late.above.save_model)
  require(module)[field](self, file)
end

--- The parameters by name: what a checkpoint holds of the module.
---@return table tensors name to tensor
function Module:state()
  local out = {}
  for _, p in ipairs(self:parameters()) do out[p.name] = p.tensor end
  return out
end

-- Why a name stands on one side alone: one net is pruned, or the two are other models.
local function another(name, tensors, here)
  local weight = type(name) == 'string' and name:match '^(.*)_mask$'
  if not weight or tensors[weight] == nil then return 'the tensors are of another model' end
  if here then
    return weight .. ' is pruned here, and the tensors are of a net without masks: load them into '
      .. 'such a net, and prune that'
  end
  return weight .. ' is pruned in the net that the tensors are of: load them into one that is '
    .. 'pruned alike, or let ridge.nn.load make the net of its file'
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
  local own, rest = self:parameters(), {} -- in their order: of several faults the first is told
  for name in pairs(tensors) do rest[name] = true end
  for _, p in ipairs(own) do
    local name, x, given = p.name, p.tensor, tensors[p.name]
    if given == nil then
      blame.raise(('%s: %s is missing: %s'):format(what, name, another(name, tensors, true)),
        'EARG')
    end
    ref.need(given, ('%s: %s'):format(what, name))
    if given:describe() ~= x:describe() then
      blame.raise(('%s: %s is %s, and here %s: the tensors are of another model'):format(what, name,
        given:describe(), x:describe()), 'ESHAPE')
    end
    rest[name] = nil
  end
  local more = next(rest)
  if more then
    blame.raise(('%s: there is no %s here: %s'):format(what, tostring(more),
      another(more, tensors, false)), 'EARG')
  end
  in_no_grad(function()
    for _, p in ipairs(own) do p.tensor:copy_(tensors[p.name]) end
  end)
  return self
end

local function is_module(value)
  return type(value) == 'table' and type(rawget(value, 'children')) == 'table'
    and type(rawget(value, 'params')) == 'table' and getmetatable(value) ~= nil
end

-- Modules kept in fields, or in lists in fields, that are not children: {name =, module =}, sorted.
local function plain_fields(self)
  local list, known = {}, { [self] = true, [self.children] = true, [self.params] = true }
  for _, c in ipairs(self.children) do known[c.module] = true end
  local function look(name, value)
    if is_module(value) and not known[value] then
      list[#list + 1] = { name = name, module = value }
    end
  end
  for field, value in next, self do
    local name = tostring(field)
    look(name, value)
    if type(value) == 'table' and not getmetatable(value) and not known[value] then
      for i, each in ipairs(value) do look(('%s[%d]'):format(name, i), each) end
    end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

-- What a module of a class of the user's says of itself, where that is a text.
local function own_text(self)
  local kind = getmetatable(self)
  if kind.__tostring == Module.__tostring then return nil end
  local ok, text = pcall(tostring, self)
  if not ok and blame.is_error(text) then error(text, 0) end
  return ok and text or ('%s (its __tostring raises)'):format(kind.__name)
end

-- Running statistics, scales and packed weights are stored and are no parameters.
local function sizes_text(self)
  local learned, stored = 0, 0
  for _, p in ipairs(self:parameters()) do
    stored = stored + p.tensor.count
    if mode.is_learned(p) then learned = learned + p.tensor.count end
  end
  if stored == 0 then return '' end
  if learned == stored then return ('(%d parameters)'):format(learned) end
  return ('(%d parameters and %d in buffers)'):format(learned, stored - learned)
end

local function lines_of(self)
  local lines = { getmetatable(self).__name .. sizes_text(self) }
  for _, c in ipairs(self.children) do
    local text = own_text(c.module) or lines_of(c.module)
    lines[#lines + 1] = ('  (%s) %s'):format(c.name, (text:gsub('\n', '\n  ')))
  end
  local plain = plain_fields(self)
  for _, f in ipairs(plain) do
    lines[#lines + 1] = ('  %s = %s'):format(f.name, tostring(f.module):match '[^\n]*')
  end
  if #plain > 0 then
    local name_of_child = plain[1].name:gsub('[%[%]]', '')
    lines[#lines + 1] = ('  what stands behind = is a plain field, not trained, saved or moved '
      .. "with it: self:child('%s', ...) makes it a part"):format(name_of_child)
  end
  return table.concat(lines, '\n')
end

--- One line with how many numbers are stored, where there are any, and a line for each child; or
--- what is wrong with them.
-- Modules that are kept as plain fields are shown as what they are: no part of it.
---@return string text
function Module:describe()
  local ok, text = pcall(function() return own_text(self) or lines_of(self) end)
  if ok then return text end
  if not blame.is_error(text) then error(text, 0) end
  return ('%s that cannot run: %s'):format(getmetatable(self).__name, text.message:match '[^\n]*')
end

--- The same where it is short; of a large net twelve lines.
function Module:__tostring() return folded(Module.describe(self)) end

--- In a list or a table: its first line.
function Module:__line()
  local text = tostring(self)
  return text:find '\n' and text:match '[^\n]*' .. ' ...' or text
end

return Module
