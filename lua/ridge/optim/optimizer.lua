-- SPDX-License-Identifier: MIT
--- What every optimizer is: groups of parameters, their states, and one call of the core for each
--- group and step.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local ref = require 'ridge.ffi.ref'
local blame = require 'ridge.blame'
local class = require('ridge.class').class
local gradients = require 'ridge.optim.gradients'
local make = require 'ridge.tensor.make'
local mode = require 'ridge.tensor.mode'
local options = require 'ridge.options'
local ranges = require 'ridge.ranges'
local worlds = require 'ridge.world'

local Optimizer = class('optim.Optimizer')

local slot = ref.slot

-- -- Parameters ---------------------------------------------------------------------------------

-- Where the parameters are: places in modules, {module =, own =, name =}, tied ones each, or plain
-- tensors. Beside them the places of buffers, which no step changes.
local function places_of(given, what)
  if type(given) == 'table' and type(given.parameters) == 'function' then
    given = mode.places(given)
  end
  if ref.is(given) then given = { given } end
  if type(given) ~= 'table' then
    blame.raise(('%s: parameters are a module, or a list of tensors, got %s'):format(what,
      blame.show(given)), 'EARG', what)
  end
  local list, buffers = {}, {}
  for _, p in ipairs(given) do
    local place = type(p) == 'table' and p or { tensor = p }
    ref.need(place.tensor, what)
    if place.trainable ~= false then
      list[#list + 1] = place
    elseif place.module then
      buffers[#buffers + 1] = place
    end
  end
  return list, buffers
end

-- One tensor for another view of the same memory, so that shared weights are stepped once.
local function key_of(x)
  return tostring(ffi.cast('uintptr_t', ffi.cast('void *', x._t._storage)))
    .. ':' .. tostring(ffi.cast('uintptr_t', ffi.cast('void *', x._t._data)))
end

-- The tensors that the places hold now, each once, and their names, where they have any.
local function tensors_of(places, what)
  local list, names, seen = {}, {}, {}
  for _, place in ipairs(places) do
    local tensor = place.tensor
    if place.module then tensor = mode.held(place) end
    local key = tensor and key_of(tensor)
    if key and not seen[key] then
      seen[key] = true
      list[#list + 1] = blame.within(what, function() return tensor:requires_grad_() end)
      names[#list] = place.name
    end
  end
  if #list == 0 then blame.raise(what .. ': there are no parameters to train', 'EARG', what) end
  return list, names
end

local function filled(value, dtype, shape, device)
  local args = { unpack(shape) }
  args[#args + 1] = { dtype = dtype, device = device }
  return make.full(value, unpack(args))
end

-- What one call of the core steps: the group's parameters on one device, beside the rate and the
-- count of steps there, which nobody has to bring from elsewhere.
local function place_of(device, opts, n_states, n)
  local place = { device = device, at = {}, rate = filled(opts.lr, 'f64', {}, device),
    count = filled(0, 'f64', { 1 }, device), inputs = ffi.new('rg_step_inputs'),
    param = ffi.new('rg_tensor *[?]', n), grad = ffi.new('const rg_tensor *[?]', n),
    state = {}, held = {} }
  for k = 1, n_states do place.state[k] = ffi.new('rg_tensor *[?]', n) end
  return place
end

-- The places of a group's parameters, one for each device that they are on; those that were keep
-- their count of steps.
local function arrange(group, n_states)
  local by, before = {}, {}
  for _, place in ipairs(group.places or {}) do before[place.device] = place end
  local first = (group.places or {})[1]
  group.places = {}
  for i, p in ipairs(group.params) do
    local device = p.device
    if not by[device] then
      local place = place_of(device, group.options, n_states, #group.params)
      local known = before[device] or first
      if known then place.count:copy_(known.count) end
      by[device] = place
      table.insert(group.places, place)
    end
    table.insert(by[device].at, i)
  end
end

-- A parameter's moments.
local function fresh(p, n_states)
  local states = {}
  for k = 1, n_states do
    states[k] = filled(0, p.dtype == 'f64' and 'f64' or 'f32', p:size(), p.device)
  end
  return states
end

-- One group: its tensors, their states, and a place for each device that they are on.
local function group_of(self, where, opts)
  local what, n_states = getmetatable(self).__name, self.n_states(opts)
  local params, names = tensors_of(where, what)
  local group = { where = where, params = params, names = names, options = opts, base = opts.lr,
    states = {} }
  for k = 1, n_states do group.states[k] = {} end
  for i, p in ipairs(params) do
    for k, state in ipairs(fresh(p, n_states)) do group.states[k][i] = state end
  end
  arrange(group, n_states)
  group.core = self.core_options(opts)
  return group
end

-- Parameters that are other tensors now are taken up with fresh moments.
local function take_up(self, group)
  local what, n_states = getmetatable(self).__name, #group.states
  local params, names = tensors_of(group.where, what)
  local before, same = {}, #params == #group.params
  for i, p in ipairs(group.params) do
    if p._t ~= nil then before[key_of(p)] = i end
  end
  local states, new = {}, {}
  for k = 1, n_states do states[k] = {} end
  for i, p in ipairs(params) do
    local at = before[key_of(p)]
    same = same and at == i
    local made = not at and fresh(p, n_states)
    if made then new[#new + 1] = names[i] end
    for k = 1, n_states do states[k][i] = at and group.states[k][at] or made[k] end
  end
  if same then return end
  group.params, group.names, group.states = params, names, states
  arrange(group, n_states)
  if #new > 0 and worlds.speaks() then
    local where = blame.where()
    io.stderr:write(('%s%s: %s replaced; moments start again\n'):format(
      where and where .. ': ' or '', what, table.concat(new, ', ')
        .. (#new == 1 and ' was' or ' were')))
  end
end

--- Look whether parameters are other tensors now (module.weight = t, module:to); a step, and what
--- reads parameters or moments, does so first.
---@return table self
function Optimizer:look_again()
  if self.replaced ~= mode.replaced then
    for _, group in ipairs(self.groups) do take_up(self, group) end
    self.replaced = mode.replaced
  end
  return self
end

-- -- Making -------------------------------------------------------------------------------------

-- A parameter in two groups would be stepped twice, at two rates.
local function check_apart(groups, what)
  local seen = {}
  for g, group in ipairs(groups) do
    for i, p in ipairs(group.params) do
      local before = seen[key_of(p)]
      if before then
        blame.raise(('%s: %s is in group %d and in group %d'):format(what,
          group.names[i] or p:describe(), before, g), 'EARG', what)
      end
      seen[key_of(p)] = g
    end
  end
end

--- Set up; classes give `spec` (their options), `n_states`, `core_options` and `step_of`.
---@param given any a module, a list of tensors, or a list of groups {params =, lr =, ...}
---@param opts table|nil for all groups that do not say otherwise
function Optimizer:init(given, opts)
  local what = getmetatable(self).__name
  if not self.spec then
    blame.raise(('%s is what optimizers are made of and has no step: use ridge.optim.SGD, Adam, '
      .. 'AdamW or Lion'):format(what), 'EARG', what)
  end
  local base = options.check(self.spec, opts, what)
  local groups = {} -- of an optimizer made again; those there were stay where that fails
  local grouped = type(given) == 'table' and not ref.is(given)
    and type(given.parameters) ~= 'function' and type(given[1]) == 'table'
    and given[1].params ~= nil
  for _, each in ipairs(grouped and given or { { params = given } }) do
    local own = {}
    for name, value in pairs(base) do own[name] = value end
    for name, value in pairs(each) do
      if name ~= 'params' then own[name] = value end
    end
    local places, buffers = places_of(each.params, what)
    groups[#groups + 1] = group_of(self, places, options.check(self.spec, own, what))
    groups[#groups].buffers = buffers
  end
  check_apart(groups, what)
  self.groups, self.replaced, self.statistics = groups, mode.replaced, nil
end

-- -- Stepping -----------------------------------------------------------------------------------

-- Parameters that have a gradient, with their states, side by side; how many.
local function gather(group, place)
  local n = 0
  for _, i in ipairs(place.at) do
    local p = group.params[i]
    local st = C.rg_grad_of(p._t, slot)
    if st ~= 0 then call.fail(st) end
    local grad = slot[0] -- read once: whatever runs behind it may use the slot
    if grad ~= nil then
      place.held[n + 1] = grad
      place.param[n], place.grad[n] = p._t, grad
      for k, states in ipairs(group.states) do place.state[k][n] = states[i]._t end
      n = n + 1
    end
  end
  return n
end

local function let_go(place, n)
  for i = 1, n do
    C.rg_tensor_release(place.held[i])
    place.held[i] = nil
  end
end

local STEP = { scale = { 'any', doc = 'a tensor of one number' } }

-- The options of step and zero_grad. `...`: what stands behind them, which nobody reads.
local function check_call(self, spec, opts, name, ...)
  local what = ('%s:%s'):format(getmetatable(self).__name, name)
  if select('#', ...) > 0 then
    blame.raise(('%s: it takes one table of options, got %d arguments'):format(what,
      1 + select('#', ...)), 'EARG')
  end
  if opts ~= nil then options.check(spec, opts, what) end
end

local function take_step(self, opts, ...)
  local what = getmetatable(self).__name
  if opts ~= nil or select('#', ...) > 0 then check_call(self, STEP, opts, 'step', ...) end
  local scale = opts and opts.scale
  if scale ~= nil then ref.need(scale, what) end
  if self.replaced ~= mode.replaced then self:look_again() end
  call.settle()
  for _, group in ipairs(self.groups) do
    for _, place in ipairs(group.places) do
      local here = scale and (scale.device == place.device and scale or scale:to(place.device))
      local n = gather(group, place)
      if n > 0 then
        local inputs = place.inputs
        inputs.n, inputs.param, inputs.grad = n, place.param, place.grad
        for k = 1, #group.states do inputs.state[k - 1] = place.state[k] end
        inputs.rate, inputs.count = place.rate._t, place.count._t
        inputs.scale = here and here._t or nil
        local st = self.step_of(inputs, group.core)
        let_go(place, n)
        call.check(st, what)
      end
    end
  end
  if self.after then -- pairs is not compiled (ridge.pairs)
    for _, f in pairs(self.after) do f() end
  end
  return self
end

--- Take a step with the accumulated gradients. Parameters without one stay as they are.
---@param opts table|nil {scale = Tensor}: gradients are multiplied by it; where it is not finite
---  the step is left out
---@param ... any an error: nothing reads it
---@return table self
function Optimizer:step(opts, ...)
  return ranges.section('optimizer_step', take_step, self, opts, ...)
end

--- Have a function called behind every step; one for each key.
---@param key any whose function it is
---@param f function|nil
---@return table self
function Optimizer:after_step(key, f)
  if key == nil or f ~= nil and type(f) ~= 'function' then
    blame.raise(('after_step: a key and a function are expected, got %s and %s'):format(
      blame.show(key), blame.show(f)), 'EARG')
  end
  self.after = self.after or {}
  self.after[key] = f
  return self
end

local ZERO = { set = { 'boolean', doc = 'fill with zeros, so that the memory stays' } }

--- Forget the gradients, or fill them with zeros, so that their memory stays.
---@param opts table|nil {set = false}
---@param ... any an error: nothing reads it
---@return table self
function Optimizer:zero_grad(opts, ...)
  if opts ~= nil or select('#', ...) > 0 then check_call(self, ZERO, opts, 'zero_grad', ...) end
  local set = opts and opts.set and 1 or 0
  self:look_again()
  for _, group in ipairs(self.groups) do
    for _, p in ipairs(group.params) do call.check(C.rg_zero_grad(p._t, set)) end
  end
  return self
end

--- The Euclidean norm of all gradients together, as a tensor of one number on the device of the
--- first one; nil where none is.
---@return Tensor|nil
function Optimizer:grad_norm()
  return gradients.norm_of(self:look_again())
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
      blame.raise(('lr: a learning rate is a finite number from 0, got %s')
        :format(blame.show(value)))
    end
    for _, group in ipairs(self.groups) do
      group.options.lr, group.base = value, value
      for _, place in ipairs(group.places) do place.rate:fill_(value) end
    end
  end
  return self.groups[1].options.lr
end

--- Multiply the rates that the groups began with: what schedules do.
---@param factor number
---@return table self
function Optimizer:scale_lr(factor)
  if type(factor) ~= 'number' or not (factor >= 0 and factor < math.huge) then
    blame.raise(('scale_lr: a factor is a finite number from 0, got %s'):format(blame.show(factor)))
  end
  for _, group in ipairs(self.groups) do
    group.options.lr = group.base * factor
    for _, place in ipairs(group.places) do place.rate:fill_(group.options.lr) end
  end
  return self
end

--- Steps taken so far.
---@return number
function Optimizer:steps()
  return self.groups[1].places[1].count:item()
end

--- What a step depends on beside the parameters: moments, counts and rates, as tensors by name.
---@return table tensors name to tensor
function Optimizer:state()
  self:look_again()
  local out = {}
  for g, group in ipairs(self.groups) do
    out[g .. '.rate'] = group.places[1].rate
    out[g .. '.base'] = filled(group.base, 'f64', {})
    out[g .. '.count'] = group.places[1].count
    for k, states in ipairs(group.states) do
      for i, x in ipairs(states) do out[('%d.%d.%d'):format(g, k, i)] = x end
    end
  end
  return out
end

--- Raise unless a state is of an optimizer of the same kind for the same parameters.
---@param tensors table name to tensor, as `state` gives them
---@return table own the state there is
function Optimizer:check_state(tensors)
  local what = getmetatable(self).__name .. ':load_state'
  if type(tensors) ~= 'table' then
    blame.raise(('%s: a table of tensors is expected, got %s'):format(what, blame.show(tensors)),
      'EARG')
  end
  local own, names = self:state(), {}
  for name in pairs(own) do names[#names + 1] = name end
  table.sort(names) -- of several that are wrong the same one is told each time
  local n = #names
  for _, name in ipairs(names) do
    local x, given = own[name], tensors[name]
    if given ~= nil then ref.need(given, what) end
    if given == nil or given:describe() ~= x:describe() then
      blame.raise(('%s: %s is %s, and here %s: the state is of another optimizer'):format(what,
        name, given and given:describe() or 'missing', x:describe()), 'EARG')
    end
  end
  for _ in pairs(tensors) do n = n - 1 end
  if n ~= 0 then
    blame.raise(('%s: %d tensors are left over: the state is of another optimizer'):format(what,
      -n), 'EARG')
  end
  return own
end

--- Take the state of an optimizer of the same kind for the same parameters, wherever either lies.
--- All of it fits, or nothing is changed.
---@param tensors table name to tensor, as `state` gives them
---@return table self
function Optimizer:load_state(tensors)
  local own = self:check_state(tensors)
  for name, x in pairs(own) do x:copy_(tensors[name]) end
  for g, group in ipairs(self.groups) do
    for k = 2, #group.places do
      group.places[k].rate:copy_(group.places[1].rate)
      group.places[k].count:copy_(group.places[1].count)
    end
    group.options.lr, group.base = tensors[g .. '.rate']:item(), tensors[g .. '.base']:item()
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
