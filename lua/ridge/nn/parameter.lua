-- SPDX-License-Identifier: MIT
--- Parameters of a module: how they are read (module.weight), exchanged (module.weight = t) and
--- computed from others (parametrisations).
---
--- `module.params` lists them in order, {name =, tensor =, trainable =}; `module._tensors` has what
--- is read by name. No field of the module itself has a parameter's name, so that Lua asks here
--- when one is assigned.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local dtype = require 'ridge.tensor.dtype'
local in_no_grad = require('ridge.tensor.grad').no_grad
local mode = require 'ridge.tensor.mode'
local ref = require 'ridge.ffi.ref'

local M = {}

local FLOAT = { f64 = true, f32 = true, f16 = true, bf16 = true }

local function kind_of(self) return getmetatable(self).__name end

-- An index by name for each list of entries: a file can have a hundred thousand. It grows when
-- somebody asks; an entry that went, or came in between others, moved the last one it knows.
local indexes = setmetatable({}, { __mode = 'k' })

local function index_of(params)
  local index = indexes[params]
  if not index or index.n > #params or params[index.n] ~= index.last then
    index = { n = 0, at = {} }
    indexes[params] = index
  end
  for i = index.n + 1, #params do
    index.at[params[i].name] = index.at[params[i].name] or i
    index.n, index.last = i, params[i]
  end
  return index
end

--- The entry of a parameter or buffer of the module itself.
---@param self table module
---@param name string
---@return table|nil entry
---@return integer|nil at its place in self.params
function M.entry(self, name)
  local params = self.params
  local at = index_of(params).at[name]
  if at then return params[at], at end
end

-- What is stepped and loaded in place has memory of its own for each element.
local function need_apart(tensor, what)
  for i = 1, tensor.ndim do
    if tensor.stride[i] == 0 and tensor.shape[i] > 1 then
      blame.raise(('%s: %s repeats its elements (expand), and a parameter is written to: '
        .. 'x:contiguous() makes a copy that can be'):format(what, tensor:describe()), 'EARG')
    end
  end
end

-- A tensor that parameters can be: computed from others that require a gradient it would be no
-- leaf.
local function leaf(tensor)
  if C.rg_grad_flows_through(tensor._t) == 0 then return tensor end
  return in_no_grad(function() return tensor:detach():clone() end)
end

-- Let an entry hold a tensor from here on. It requires a gradient where what was there before did:
-- a module in evaluation mode is fine-tuned, too.
local function hold(self, p, tensor, before)
  local required = before and C.rg_requires_grad(before._t) == 1
  C.rg_scope_keep(tensor._t) -- it outlives the scope it was made in
  if self.marks_weights then C.rg_tensor_set_param(tensor._t, 1) end
  p.tensor = tensor
  if not (self._parametrizations and self._parametrizations[p.name]) then
    self._tensors[p.name] = tensor
  end
  if p.trainable and (self.training or required) then tensor:requires_grad_() end
end

--- Let a parameter be another tensor, which plans and optimizers are told of.
---@param self table module
---@param p table its entry
---@param tensor Tensor
function M.put(self, p, tensor)
  if p.tensor ~= nil and p.tensor._t ~= tensor._t then mode.replaced = mode.replaced + 1 end
  hold(self, p, tensor, p.tensor)
end

--- A new parameter or buffer; of a name that is taken, another tensor for it.
---@param self table module
---@param name string
---@param tensor Tensor
---@param trainable boolean
---@return Tensor
function M.add(self, name, tensor, trainable)
  local what = kind_of(self)
  if type(name) ~= 'string' or not name:match('^[%a_][%w_]*$') then
    blame.raise(('%s: a parameter has a name such as weight, got %s'):format(what,
      blame.show(name)))
  end
  ref.need(tensor, what .. ': parameter ' .. name)
  if trainable and not FLOAT[tensor.dtype] then
    blame.raise(('%s: parameter %s is %s, and only float types are trained; buffer keeps others')
      :format(what, name, tensor:describe()), 'EDTYPE')
  end
  need_apart(tensor, ('%s: parameter %s'):format(what, name))
  rawset(self, name, nil)
  local p = M.entry(self, name)
  if not p then
    p = { name = name }
    self.params[#self.params + 1] = p
  end
  p.trainable = trainable
  M.put(self, p, tensor)
  return tensor
end

-- A tensor elsewhere or of another type, itself where it is that; what wanted gradients there wants
-- them here.
local function moved(tensor, name)
  local there = in_no_grad(tensor.to, tensor, name)
  return there._t ~= tensor._t and tensor.requires_grad and there:requires_grad_() or there
end

--- The table of what was converted already, which walks over modules hand on; anything else that is
--- given is a mistake, and a cdata would be written into.
---@param made table|nil a new one is made where there is none
---@return table
function M.made(made)
  if made ~= nil and type(made) ~= 'table' then
    blame.raise(('to: one type or device is expected, and %s is behind it'):format(
      blame.show(made)), 'EARG')
  end
  return made or {}
end

--- Convert or move a parameter, where its type allows that.
---@param self table module
---@param own string its name; nothing happens where there is none
---@param to string element type or device
---@param made table|nil what was converted already: shared parameters stay shared
function M.convert(self, own, to, made)
  made = M.made(made)
  local p = M.entry(self, own)
  if not p or not (dtype.is_device(to) or FLOAT[p.tensor.dtype]) then return end
  local key = tonumber(ffi.cast('intptr_t', p.tensor._t))
  made[key] = made[key] or { moved(p.tensor, to), p.tensor } -- the key stays taken
  M.put(self, p, made[key][1])
end

-- -- Reading ------------------------------------------------------------------------------------

-- What a parametrisation gives for its parameter now.
local function computed(self, way)
  local given = {}
  for i, name in ipairs(way.names) do given[i] = M.entry(self, name).tensor end
  if way.buffers then
    local held = {}
    for short, name in pairs(way.buffers) do held[short] = M.entry(self, name).tensor end
    given[#given + 1] = held
  end
  return way.forward(unpack(given))
end

--- A field that the module itself has not: of its class, a parameter, a child by its place from the
--- end.
---@param self table module
---@param key any
---@return any
function M.index(self, key)
  local value = getmetatable(self)[key]
  if value ~= nil then return value end
  local tensors = rawget(self, '_tensors')
  if not tensors then return nil end
  value = tensors[key]
  if value ~= nil then
    if mode.reads then mode.reads(self) end
    return value
  end
  local ways = rawget(self, '_parametrizations')
  if ways and ways[key] then return computed(self, ways[key]) end
  if type(key) == 'number' and key < 0 then return rawget(self, #self + 1 + key) end
  return nil
end

--- Call a function while what is parametrised is computed once, for all who read it.
---@param self table module
---@param f function
---@param ... any
---@return any what f returns
function M.within(self, f, ...)
  local tensors, ways = self._tensors, self._parametrizations
  local function run(...)
    for name, way in pairs(ways) do tensors[name] = computed(self, way) end
    return f(...)
  end
  local function done(ok, ...)
    for name in pairs(ways) do tensors[name] = nil end
    if not ok then error((...), 0) end
    return ...
  end
  return done(pcall(run, ...))
end

-- -- Assigning ----------------------------------------------------------------------------------

local function check(self, name, tensor, like)
  local what = kind_of(self)
  if not ref.is(tensor) then
    blame.raise(('%s: %s is a parameter; a tensor is expected, got %s'):format(what, name,
      blame.show(tensor)), 'EARG')
  end
  ref.need(tensor, what)
  if tensor:describe() ~= like:describe() then
    blame.raise(('%s: %s is %s, and %s was given'):format(what, name, like:describe(),
      tensor:describe()), tensor.dtype == like.dtype and 'ESHAPE' or 'EDTYPE')
  end
  if tensor.device ~= like.device then
    blame.raise(('%s: %s is on %s, and the tensor that was given on %s'):format(what, name,
      like.device, tensor.device), 'EDEVICE')
  end
end

-- What right_inverse gives, and how many, holes counted.
local function inverses(right_inverse, tensor)
  local function counted(...) return { ... }, select('#', ...) end
  return counted(in_no_grad(function() return right_inverse(tensor:detach()) end))
end

-- The originals of what a parametrisation is to give.
local function invert(self, way, name, tensor)
  if not way.right_inverse then
    blame.raise(('%s: %s is parametrised without right_inverse, which says what it is computed '
      .. 'from'):format(kind_of(self), name), 'EARG')
  end
  local list, n = inverses(way.right_inverse, tensor)
  if n ~= #way.names then
    blame.raise(('%s: right_inverse gave %d tensors for %s, and now %d'):format(kind_of(self),
      #way.names, name, n), 'EARG')
  end
  for i, each in ipairs(way.names) do
    local p, what = M.entry(self, each), 'what right_inverse gives for ' .. each
    check(self, what, list[i], p.tensor)
    list[i] = leaf(list[i])
    need_apart(list[i], ('%s: %s'):format(kind_of(self), what))
  end
  for i, each in ipairs(way.names) do M.put(self, M.entry(self, each), list[i]) end
end

--- module.name = value, where the module itself has no such field.
---@param self table module
---@param key any
---@param value any
function M.newindex(self, key, value)
  local tensors = rawget(self, '_tensors')
  local ways = rawget(self, '_parametrizations')
  if ways and ways[key] then
    check(self, key, value, in_no_grad(computed, self, ways[key]))
    return invert(self, ways[key], key, value)
  end
  local before = tensors and tensors[key]
  if before then
    check(self, key, value, before)
    if value._t == before._t then return end
    value = leaf(value)
    need_apart(value, ('%s: %s'):format(kind_of(self), key))
    M.put(self, M.entry(self, key), value)
    if self.apart then self:apart() end
    return
  end
  local absent = rawget(self, '_absent')
  if absent and absent[key] and value ~= nil then
    blame.raise(('%s: it was made without %s, and computes without one'):format(
      (tostring(self):match '[^\n]*'), key), 'EARG')
  end
  rawset(self, key, value)
end

-- -- Parametrisations ---------------------------------------------------------------------------

local function wrap(self)
  self._wrapped = self.recomputes and true or next(self._parametrizations or {}) ~= nil
end

M.wrap = wrap

local function numbered(name, i) return ('%s_%d'):format(name, i) end

-- The originals as the module's entries: one under the parameter's own name, or several under
-- numbered ones, in its place.
local function enter_originals(self, name, originals)
  local p, at = M.entry(self, name)
  if #originals == 1 then
    self._tensors[name] = nil
    M.put(self, p, originals[1])
    return { name }
  end
  table.remove(self.params, at)
  self._tensors[name] = nil
  local names = {}
  for i, tensor in ipairs(originals) do
    names[i] = numbered(name, i)
    local each = { name = names[i], trainable = p.trainable, frozen = p.frozen }
    table.insert(self.params, at + i - 1, each)
    hold(self, each, tensor, p.tensor)
  end
  mode.replaced = mode.replaced + 1
  return names
end

-- Can a tensor be the i-th of n originals of a parameter? Asked before anything changes.
local function check_original(self, p, i, n, tensor, what)
  need_apart(tensor, what .. ': right_inverse')
  if p.trainable and not FLOAT[tensor.dtype] then
    blame.raise(('%s: right_inverse gives %s, and only float types are trained'):format(what,
      tensor:describe()), 'EDTYPE')
  end
  local name = numbered(p.name, i)
  if n > 1 and self[name] ~= nil then
    blame.raise(('%s: what right_inverse gives is kept as %s, and %s has such a field'):format(what,
      name, kind_of(self)), 'EARG')
  end
end

-- Buffers that a parametrisation reads, by their names in the module; nothing changes here.
local function buffer_names(self, name, given, what)
  if given == nil then return nil end
  if type(given) ~= 'table' then
    blame.raise(('%s: buffers are tensors by name, got %s'):format(what, blame.show(given)), 'EARG')
  end
  local names = {}
  for short, tensor in pairs(given) do
    local own = ('%s_%s'):format(name, tostring(short))
    if type(short) ~= 'string' or not own:match '^[%a_][%w_]*$' then
      blame.raise(('%s: a buffer has a name such as mask, got %s'):format(what,
        blame.show(short)), 'EARG')
    end
    ref.need(tensor, ('%s: buffer %s'):format(what, short))
    need_apart(tensor, ('%s: buffer %s'):format(what, short))
    if self[own] ~= nil then
      blame.raise(('%s: buffer %s is kept as %s, and %s has such a field'):format(what, short, own,
        kind_of(self)), 'EARG')
    end
    names[short] = own
  end
  return names
end

-- The originals of a parameter: of right_inverse where there is one, else the tensor itself.
local function originals_of(self, p, given, what)
  if not given.right_inverse then return { p.tensor } end
  local originals, n = inverses(given.right_inverse, p.tensor)
  if n == 0 then blame.raise(what .. ': right_inverse gives nothing', 'EARG') end
  for i = 1, n do
    ref.need(originals[i], what .. ': right_inverse')
    originals[i] = leaf(originals[i])
    check_original(self, p, i, n, originals[i], what)
  end
  return originals
end

--- Compute a parameter from others in each pass: a mask, two factors of low rank, a rounding.
---@param self table module
---@param name string
---@param given table {forward =, right_inverse =, buffers =}
---@return table self
function M.parametrize(self, name, given)
  local what = kind_of(self) .. ':parametrize'
  local p = M.entry(self, name)
  if not p or self._parametrizations and self._parametrizations[name] then
    blame.raise(('%s: %s is %s'):format(what, blame.show(name),
      p and 'parametrised already' or 'no parameter of this module'), 'EARG')
  end
  if type(given) ~= 'table' or not blame.callable(given.forward)
    or given.right_inverse ~= nil and not blame.callable(given.right_inverse) then
    blame.raise(what .. ': {forward = function, right_inverse = function or nil} is expected, got '
      .. blame.show(given), 'EARG')
  end
  local originals = originals_of(self, p, given, what)
  local buffers = buffer_names(self, name, given.buffers, what)
  check(self, 'what forward gives for ' .. name, in_no_grad(function()
    local args = { unpack(originals) }
    args[#args + 1] = given.buffers
    return given.forward(unpack(args))
  end), p.tensor)
  if self.apart then self:apart() end
  for short, own in pairs(buffers or {}) do M.add(self, own, given.buffers[short], false) end
  self._parametrizations = self._parametrizations or {}
  local way = { forward = given.forward, right_inverse = given.right_inverse, names = { name },
    buffers = buffers }
  self._parametrizations[name] = way
  way.names = enter_originals(self, name, originals)
  mode.replaced = mode.replaced + 1
  wrap(self)
  return self
end

--- Let a parametrised parameter be what is computed for it now.
---@param self table module
---@param name string
---@return table self
function M.remove_parametrization(self, name)
  local way = self._parametrizations and self._parametrizations[name]
  if not way then
    blame.raise(('%s:remove_parametrization: %s is not parametrised'):format(kind_of(self),
      blame.show(name)), 'EARG')
  end
  local tensor = in_no_grad(function() return computed(self, way):detach():clone() end)
  local first, at = M.entry(self, way.names[1])
  local p = { name = name, trainable = first.trainable, frozen = first.frozen }
  for _, each in ipairs(way.names) do
    table.remove(self.params, at)
    self._tensors[each] = nil
  end
  table.insert(self.params, at, p)
  for _, own in pairs(way.buffers or {}) do
    table.remove(self.params, select(2, M.entry(self, own)))
    self._tensors[own] = nil
  end
  self._parametrizations[name] = nil
  hold(self, p, tensor, first.tensor)
  mode.replaced = mode.replaced + 1
  wrap(self)
  return self
end

return M
