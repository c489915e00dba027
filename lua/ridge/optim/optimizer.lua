-- SPDX-License-Identifier: MIT
--- What every optimizer is: groups of parameters, their states, and one call of the core for each
--- group and step.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local ref = require 'ridge.ffi.ref'
local blame = require 'ridge.blame'
local class = require('ridge.class').class
local make = require 'ridge.tensor.make'
local options = require 'ridge.options'

local Optimizer = class('optim.Optimizer')

local slot = ref.slot

-- -- Parameters ---------------------------------------------------------------------------------

-- The tensors of a module, of a list of {tensor =}, or of tensors; each once, trainable ones. And
-- their names, where they have any.
local function tensors_of(given, what)
  if type(given) == 'table' and type(given.parameters) == 'function' then
    given = given:parameters()
  end
  if ref.is(given) then given = { given } end
  if type(given) ~= 'table' then
    blame.raise(('%s: parameters are a module, or a list of tensors, got %s'):format(what,
      blame.show(given)), 'EARG', what)
  end
  local list, names, seen = {}, {}, {}
  for _, p in ipairs(given) do
    local tensor, wanted, name = p, true, nil
    if type(p) == 'table' then tensor, wanted, name = p.tensor, p.trainable ~= false, p.name end
    ref.need(tensor, what)
    local key = tostring(ffi.cast('uintptr_t', ffi.cast('void *', tensor._t._storage)))
      .. ':' .. tostring(ffi.cast('uintptr_t', ffi.cast('void *', tensor._t._data)))
    if wanted and not seen[key] then -- shared weights are stepped once
      seen[key] = true
      list[#list + 1] = blame.within(what, function() return tensor:requires_grad_() end)
      names[#list] = name
    end
  end
  if #list == 0 then blame.raise(what .. ': there are no parameters to train', 'EARG', what) end
  return list, names
end

local function filled(value, dtype, shape)
  local args = { unpack(shape) }
  args[#args + 1] = { dtype = dtype }
  return make.full(value, unpack(args))
end

-- One group: its tensors, its states, and the core's structure that names them.
local function group_of(self, params, names, opts)
  local n = #params
  local group = { params = params, names = names, options = opts, base = opts.lr, states = {},
    rate = filled(opts.lr, 'f64', {}),
    count = filled(0, 'f64', { 1 }), inputs = ffi.new('rg_step_inputs'),
    param = ffi.new('rg_tensor *[?]', n), grad = ffi.new('const rg_tensor *[?]', n),
    state = {}, held = {} }
  for k = 1, self.n_states(opts) do
    group.states[k], group.state[k] = {}, ffi.new('rg_tensor *[?]', n)
    for i, p in ipairs(params) do
      local dtype = p.dtype == 'f64' and 'f64' or 'f32'
      group.states[k][i] = filled(0, dtype, p:size())
    end
  end
  group.core = self.core_options(opts)
  return group
end

-- -- Making -------------------------------------------------------------------------------------

--- Set up; classes give `spec` (their options), `n_states`, `core_options` and `step_of`.
---@param given any a module, a list of tensors, or a list of groups {params =, lr =, ...}
---@param opts table|nil for all groups that do not say otherwise
function Optimizer:init(given, opts)
  local what = getmetatable(self).__name
  local base = options.check(self.spec, opts, what)
  self.groups = {}
  local grouped = type(given) == 'table' and not ref.is(given) and type(given[1]) == 'table'
    and given[1].params ~= nil
  for _, each in ipairs(grouped and given or { { params = given } }) do
    local own = {}
    for name, value in pairs(base) do own[name] = value end
    for name, value in pairs(each) do
      if name ~= 'params' then own[name] = value end
    end
    local params, names = tensors_of(each.params, what)
    self.groups[#self.groups + 1] = group_of(self, params, names,
      options.check(self.spec, own, what))
  end
end

-- -- Stepping -----------------------------------------------------------------------------------

-- Parameters at which a gradient has arrived, with their states, side by side; how many.
local function gather(group)
  local n = 0
  for i, p in ipairs(group.params) do
    call.check(C.rg_grad_of(p._t, slot))
    if slot[0] ~= nil then
      group.held[n + 1] = slot[0]
      group.param[n], group.grad[n] = p._t, slot[0]
      for k, states in ipairs(group.states) do group.state[k][n] = states[i]._t end
      n = n + 1
    end
  end
  return n
end

local function let_go(group, n)
  for i = 1, n do
    C.rg_tensor_release(group.held[i])
    group.held[i] = nil
  end
end

--- Take a step with the gradients that have arrived. Parameters without one stay as they are.
---@param opts table|nil {scale = Tensor}: gradients are multiplied by it; where it is not finite
---  the step is left out
---@return table self
function Optimizer:step(opts)
  local what = getmetatable(self).__name
  local scale = type(opts) == 'table' and opts.scale or nil
  if scale ~= nil then ref.need(scale, what) end
  call.settle()
  for _, group in ipairs(self.groups) do
    local n = gather(group)
    if n > 0 then
      local inputs = group.inputs
      inputs.n, inputs.param, inputs.grad = n, group.param, group.grad
      for k = 1, #group.states do inputs.state[k - 1] = group.state[k] end
      inputs.rate, inputs.count = group.rate._t, group.count._t
      inputs.scale = scale and scale._t or nil
      local st = self.step_of(inputs, group.core)
      let_go(group, n)
      call.check(st, what)
    end
  end
  return self
end

--- Forget the gradients, or fill them with zeros, so that their memory stays.
---@param opts table|nil {set = false}
---@return table self
function Optimizer:zero_grad(opts)
  local set = type(opts) == 'table' and opts.set and 1 or 0
  for _, group in ipairs(self.groups) do
    for _, p in ipairs(group.params) do call.check(C.rg_zero_grad(p._t, set)) end
  end
  return self
end

--- The Euclidean norm of all gradients together, as a tensor of one number; nil where none is.
---@return Tensor|nil
function Optimizer:grad_norm()
  local held, n = {}, 0
  for _, group in ipairs(self.groups) do
    for _, p in ipairs(group.params) do
      call.check(C.rg_grad_of(p._t, slot))
      if slot[0] ~= nil then
        n = n + 1
        held[n] = slot[0]
      end
    end
  end
  if n == 0 then return nil end
  local list = ffi.new('const rg_tensor *[?]', n, held)
  call.settle()
  local st = C.rg_total_norm(list, n, slot)
  for i = 1, n do C.rg_tensor_release(held[i]) end
  call.check(st, 'grad_norm')
  return ref.wrap(slot[0])
end

--- What gradients are multiplied by so that their norm is at most `most`; give it to step.
--- Not finite where the norm is not, and the step is then left out.
---@param most number
---@return Tensor|nil scale
---@return Tensor|nil norm before
function Optimizer:clip(most)
  if type(most) ~= 'number' or not (most > 0) then
    blame.raise(('clip: the largest norm is a number above 0, got %s'):format(blame.show(most)))
  end
  local norm = self:grad_norm()
  if not norm then return nil end
  -- inf * 0 is nan: a norm of inf must not become a scale of 0
  return (most / (norm + 1e-6)):minimum(1) + norm * 0, norm
end

--- The learning rate of the groups: read the first one's, or set that of all.
---@param value number|nil
---@return number
function Optimizer:lr(value)
  if value ~= nil then
    if type(value) ~= 'number' or not (value >= 0 and value < math.huge) then
      blame.raise(('lr: a learning rate is a number from 0, got %s'):format(blame.show(value)))
    end
    for _, group in ipairs(self.groups) do
      group.options.lr, group.base = value, value
      group.rate:fill_(value)
    end
  end
  return self.groups[1].options.lr
end

--- Multiply the rates that the groups began with: what schedules do.
---@param factor number
---@return table self
function Optimizer:scale_lr(factor)
  for _, group in ipairs(self.groups) do
    group.options.lr = group.base * factor
    group.rate:fill_(group.options.lr)
  end
  return self
end

--- Steps taken so far.
---@return number
function Optimizer:steps()
  return self.groups[1].count:item()
end

--- What a step depends on beside the parameters: moments, counts and rates, as tensors by name.
---@return table tensors name to tensor
function Optimizer:state()
  local out = {}
  for g, group in ipairs(self.groups) do
    out[g .. '.rate'] = group.rate
    out[g .. '.base'] = filled(group.base, 'f64', {})
    out[g .. '.count'] = group.count
    for k, states in ipairs(group.states) do
      for i, x in ipairs(states) do out[('%d.%d.%d'):format(g, k, i)] = x end
    end
  end
  return out
end

--- Take the state of an optimizer of the same kind for the same parameters. All of it fits, or
--- nothing is changed.
---@param tensors table name to tensor, as `state` gives them
---@return table self
function Optimizer:load_state(tensors)
  local what = getmetatable(self).__name .. ':load_state'
  local own, n = self:state(), 0
  for name, x in pairs(own) do
    local given = tensors[name]
    if given == nil or given:describe() ~= x:describe() then
      blame.raise(('%s: %s is %s, and here %s: the state is of another optimizer'):format(what,
        name, given and given:describe() or 'missing', x:describe()), 'EARG')
    end
    n = n + 1
  end
  for _ in pairs(tensors) do n = n - 1 end
  if n ~= 0 then
    blame.raise(('%s: %d tensors are left over: the state is of another optimizer'):format(what,
      -n), 'EARG')
  end
  for name, x in pairs(own) do x:copy_(tensors[name]) end
  for g, group in ipairs(self.groups) do
    group.options.lr, group.base = group.rate:item(), tensors[g .. '.base']:item()
  end
  return self
end

function Optimizer:__tostring()
  local n = 0
  for _, group in ipairs(self.groups) do
    for _, p in ipairs(group.params) do n = n + p.count end
  end
  return ('%s(lr %g, %d parameters)'):format(getmetatable(self).__name, self:lr(), n)
end

return Optimizer
