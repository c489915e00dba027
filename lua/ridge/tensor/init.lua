-- SPDX-License-Identifier: MIT
--- Tensors in Lua: the handle's metatype with its operators, properties and methods.

local ffi = require 'ffi'
local new_table = require 'table.new'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local ref = require 'ridge.ffi.ref'
local blame = require 'ridge.blame'
local options = require 'ridge.options'
local types = require 'ridge.types'
local dtype = require 'ridge.tensor.dtype'
local ops = require 'ridge.tensor.ops'
local view = require 'ridge.tensor.view'
local grad = require 'ridge.tensor.grad'
local image = require 'ridge.tensor.image'
local choose = require 'ridge.tensor.choose'
local arrange = require 'ridge.tensor.arrange'
local indexing = require 'ridge.tensor.indexing'
local resize = require 'ridge.tensor.resize'
local found = require 'ridge.tensor.found'
local windows = require 'ridge.tensor.windows'
local pools = require 'ridge.tensor.pools'
local composed = require 'ridge.tensor.composed'
local pieces = require 'ridge.tensor.pieces'
local summary = require 'ridge.show.summary'

local M = {}

local methods, docs = {}, {}
local surplus = require('ridge.tensor.elementwise').surplus
for _, source in ipairs { ops, view, grad, image, choose, indexing, arrange, windows, pools,
  composed, resize, found } do
  for name, f in pairs(source.methods) do methods[name] = f end
  for name, doc in pairs(source.docs) do docs[name] = doc end
end

-- -- Facts --------------------------------------------------------------------------------

--- What is behind a handle that a method was given; anything else is an error.
local function inside(x, what)
  return ref.need(x, what)._t
end

local function shape_list(t)
  local list = {}
  for i = 1, t._ndim do list[i] = tonumber(t._shape[i - 1]) end
  return list
end

docs.size = 'size(axis): the size of one axis; of all as a list without it'
--- The size of one axis, or all sizes.
---@param x Tensor
---@param axis number|nil
---@return number|table
function methods.size(x, axis, extra)
  if extra ~= nil then surplus('size', 'axis', extra) end
  local t = inside(x, 'size')
  if axis == nil then return shape_list(t) end
  local i = ops.axis(axis, 'size')
  if i < 0 then i = i + t._ndim end
  if i < 0 or i >= t._ndim then
    blame.raise(('size: there is no axis %s in %s'):format(blame.show(axis), x:describe()), 'EAXIS',
      'size')
  end
  return tonumber(t._shape[i])
end

docs.describe = 'describe(): type and shape, "f32[2,3]"'
--- Type and shape as text.
---@param x Tensor
---@return string
function methods.describe(x, extra)
  if extra ~= nil then surplus('describe', '', extra) end
  local t = inside(x, 'describe')
  return dtype.name(t._dtype) .. summary.shape(shape_list(t))
end

docs.release = 'release(): give the memory back now; using the tensor afterwards is an error'
--- Give the memory back now.
---@param x Tensor
function methods.release(x, extra)
  if extra ~= nil then surplus('release', '', extra) end
  if ref.is(x) and x._t == nil then return end -- twice does no harm
  ref.release(x, methods.describe(ref.need(x, 'release')))
end

docs.set_param = 'set_param(on): mark as a weight, of which packed copies are kept'
--- Mark a tensor as a weight, of which packed copies are kept until it is written to.
---@param x Tensor
---@param on boolean|nil true when left out
---@return Tensor x
function methods.set_param(x, on, extra)
  if extra ~= nil then surplus('set_param', 'on', extra) end
  options.flag(on, 'set_param', 'on')
  C.rg_tensor_set_param(inside(x, 'set_param'), on == false and 0 or 1)
  return x
end

docs.same_storage = 'same_storage(y): do both look into the same memory?'
--- Do both look into the same memory?
---@param x Tensor
---@param y Tensor
---@return boolean
function methods.same_storage(x, y, extra)
  if extra ~= nil then surplus('same_storage', 'y', extra) end
  return C.rg_tensor_same_storage(inside(x, 'same_storage'), inside(y, 'same_storage')) == 1
end

local properties = {
  dtype = { function(t) return dtype.name(t._dtype) end, 'element type, "f32"' },
  device = { function(t) return ffi.string(C.rg_device_name(t._device)) end, 'where it lives' },
  is_pinned = { function(t) return bit.band(t._flags, C.RG_TENSOR_PINNED) ~= 0 end,
                "in memory that a GPU's copies reach by themselves?" },
  shape = { shape_list, 'sizes, a list' },
  ndim = { function(t) return t._ndim end, 'number of axes' },
  count = { function(t) return tonumber(t._count) end, 'number of elements' },
  bytes = { function(t) return tonumber(C.rg_tensor_bytes(t)) end, 'bytes of the elements' },
  is_contiguous = { function(t) return bit.band(t._flags, 1) ~= 0 end, 'row-major without gaps?' },
  stride = { function(t)
    local list = {}
    for i = 1, t._ndim do list[i] = tonumber(t._stride[i - 1]) end
    return list
  end, 'distance of neighbours along each axis, in elements' },
  version = { function(t) return tonumber(C.rg_tensor_version(t)) end,
              'how often the storage was written' },
}

for name, entry in pairs(grad.properties) do properties[name] = entry end

-- -- Elements to Lua ----------------------------------------------------------------------

local MOST = 2 ^ 27 -- elements that tables of Lua can hold

--- Elements in row-major order as an array of doubles, and their number.
local function elements(x)
  local n = x.count
  local array = ffi.new('double[?]', math.max(1, n))
  call.check(C.rg_tensor_to_doubles(x:contiguous()._t, array, n))
  return array, n
end

local function value_of(number, is_bool)
  if is_bool then return number ~= 0 end
  return number
end

docs.tolist = 'tolist(): the elements as nested lists'
--- The elements as nested lists; a scalar becomes a number.
---@param x Tensor
---@return table|number
function methods.tolist(x, extra)
  if extra ~= nil then surplus('tolist', '', extra) end
  ref.need(x, 'tolist')
  local entries = 1 -- of a tensor without elements the lists that hold none
  for _, size in ipairs(x.shape) do entries = entries * math.max(size, 1) end
  if entries > MOST then
    blame.raise(('tolist: %s has %.0f %s, and tables hold at most %d; take a part of it')
      :format(x:describe(), entries, x.count > 0 and 'elements' or 'empty lists', MOST), 'ENOMEM',
      'tolist')
  end
  local array = blame.within('tolist', function() return elements(x) end)
  local shape, is_bool = x.shape, x.dtype == 'bool'
  if #shape == 0 then return value_of(array[0], is_bool) end
  local at, looked = 0, 0
  local function look(n) -- a compiled loop is nothing that Ctrl-C could end
    looked = looked + n
    if looked < call.STRETCH then return end
    looked = 0
    call.look 'tolist'
  end
  local function build(axis)
    local size = shape[axis]
    local list = new_table(size, 0) -- a list that grows is copied over and over
    if axis < #shape then
      for i = 1, size do list[i] = build(axis + 1) end
      look(size)
      return list
    end
    for first = 1, size, call.STRETCH do
      local last = math.min(size, first + call.STRETCH - 1)
      for i = first, last do list[i] = value_of(array[at + i - 1], is_bool) end
      look(last - first + 1)
    end
    at = at + size
    return list
  end
  return build(1)
end

docs.allclose = 'allclose(y, rtol, atol): are all elements close?'
--- Are all elements close: |x - y| <= atol + rtol |y|?
---@param x Tensor
---@param y Tensor
---@param rtol number|nil 1e-5 when left out
---@param atol number|nil 1e-8 when left out
---@return boolean
function methods.allclose(x, y, rtol, atol, extra)
  if extra ~= nil then surplus('allclose', 'y, rtol, atol', extra) end
  inside(x, 'allclose')
  inside(y, 'allclose')
  rtol, atol = rtol or 1e-5, atol or 1e-8
  if type(rtol) ~= 'number' or type(atol) ~= 'number' then
    blame.raise(('allclose: rtol and atol are numbers, got %s and %s'):format(blame.show(rtol),
      blame.show(atol)), 'EARG', 'allclose')
  end
  return blame.within('allclose', function()
    local a, b = x:to('f64'), y:to('f64')
    local off = (a - b):abs()
    return off.count == 0 or off:le(b:abs() * rtol + atol):min():item() == 1
  end)
end

-- In a type that is computed with.
local function computed(x)
  return dtype.only_stored[x.dtype] and x:to 'f32' or x
end

docs.equal = 'equal(y): same shape and equal elements?'
--- Same shape and equal elements?
---@param x Tensor
---@param y Tensor
---@return boolean
function methods.equal(x, y, extra)
  if extra ~= nil then surplus('equal', 'y', extra) end
  local a, b = shape_list(inside(x, 'equal')), shape_list(inside(y, 'equal'))
  if #a ~= #b then return false end
  for i = 1, #a do
    if a[i] ~= b[i] then return false end
  end
  return x.count == 0 or blame.within('equal', function()
    return computed(x):eq(computed(y)):min():item() == 1
  end)
end

-- -- Text ---------------------------------------------------------------------------------

local FEW = 2 ^ 20   -- elements that are all handed to what shows them
local EXACT = 2 ^ 53 -- above, not every position is a number of Lua's

-- The same elements without those that an expanded axis repeats.
local function distinct(x)
  local stride = x.stride
  for axis = #stride, 1, -1 do
    if stride[axis] == 0 and x._t._shape[axis - 1] > 1 then x = x:narrow(axis, 1, 1) end
  end
  return x
end

-- How the elements of a large tensor are spread; nothing where one of them is not finite.
local function spread_of(x)
  local some = distinct(x)
  local sum, min, max, squares = 0, math.huge, -math.huge, 0
  pieces.each(some, FEW, function(piece)
    local wide = piece:to 'f64'
    sum = sum + wide:sum():item()
    min, max = math.min(min, wide:min():item()), math.max(max, wide:max():item())
  end)
  local mean = sum / some.count
  if mean - mean ~= 0 then return nil end
  pieces.each(some, FEW, function(piece)
    squares = squares + (piece:to 'f64' - mean):square():sum():item()
  end)
  return { mean = mean, std = math.sqrt(squares / some.count * (x.count / (x.count - 1))),
    min = min, max = max }
end

-- The elements of an i64 tensor as they are: as doubles they are rounded from 2^53 on.
local function longs(x)
  local array, at = ffi.new('int64_t[?]', math.max(1, x.count)), 0
  require('ridge.tensor.pieces').read(x, 'tensor', function(buffer, bytes)
    ffi.copy(ffi.cast('uint8_t *', array) + at, buffer, bytes)
    at = at + bytes
  end)
  return array
end

-- Any element of x by its number in row-major order, from 0; is_exact: i64 as they are.
local function element_of(x, is_exact)
  local shape, ndim, value = x.shape, x._t._ndim, ffi.new 'double[1]'
  local index = ffi.new('int64_t[?]', math.max(ndim, 1))
  return function(i)
    for axis = ndim, 1, -1 do
      index[axis - 1] = i % shape[axis]
      i = math.floor(i / shape[axis])
    end
    call.check(C.rg_tensor_get(x._t, index, ndim, value))
    if not is_exact or math.abs(value[0]) < EXACT then return value[0] end
    local one = x
    for axis = 1, ndim do one = one:narrow(axis, tonumber(index[axis - 1]) + 1, 1) end
    return longs(one)[0]
  end
end


-- What the host can look at: on the CPU, no more elements than there are different ones.
local function at_hand(x)
  if x.device == 'cpu' then return x end
  return distinct(x):to('cpu'):expand(x.shape)
end

local function text(x)
  if x._t == nil then return 'tensor (released)' end
  if bit.band(x._t._flags, 4) ~= 0 then return 'tensor (released with its scope)' end
  if C.rg_capturing() == 1 then return 'tensor ' .. x:describe() .. ' (being captured)' end
  local here = at_hand(x:detach())
  local get, stats
  if x.count > FEW then
    get = x.count <= EXACT and element_of(here)
    stats = x.dtype ~= 'bool' and spread_of(here) or nil
  else
    local array = elements(here)
    get = function(i) return array[i] end
  end
  return require('ridge.show').tensor {
    dtype = x.dtype, shape = x.shape, device = x.device, bytes = x.bytes, stats = stats,
    get = get, exact = get and x.dtype == 'i64' and element_of(here, true) or nil,
    flags = x.requires_grad and { 'requires_grad' } or nil,
  }
end

-- -- The metatype -------------------------------------------------------------------------

local meta = {}

local names = {}
for name in pairs(methods) do names[#names + 1] = name end
for name in pairs(properties) do names[#names + 1] = name end
table.sort(names)

function meta.__index(x, key)
  local method = methods[key]
  if method then return method end
  local property = properties[key]
  if property then return property[1](inside(x, key)) end
  if type(key) == 'number' or type(key) == 'table' then
    inside(x, 'x[i]')
    return view.index(x, key)
  end
  local near = type(key) == 'string' and blame.near(key, names)
  blame.raise(('a tensor has no %s%s'):format(tostring(key),
    near and (" (did you mean '%s'?)"):format(near) or ''))
end

function meta.__newindex(x, key, value)
  if type(key) ~= 'number' and type(key) ~= 'table' then
    blame.raise(('a tensor has no settable field %s'):format(blame.show(key)))
  end
  inside(x, 'x[i] = y')
  blame.within('x[i] = y', function() view.index(x, key):copy_(value) end)
end

meta.__add, meta.__sub = methods.add, methods.sub
meta.__mul, meta.__div, meta.__pow = methods.mul, methods.div, methods.pow
function meta.__unm(x) return methods.neg(x) end
function meta.__len(x)
  local t = inside(x, '#')
  return t._ndim > 0 and tonumber(t._shape[0]) or 0
end

-- What Lua has signs for and tensors have not.
local function none(sign, instead)
  return function(a, b)
    local x, y = ref.is(a) and a:describe() or blame.show(a), ref.is(b) and b:describe()
      or blame.show(b)
    blame.raise(('%s: there is no %s of %s and %s; %s'):format(sign, sign, x, y, instead))
  end
end
meta.__lt = none('<', 'x:lt(y) compares elements')
meta.__le = none('<=', 'x:le(y) compares elements')
meta.__mod = none('%', 'there is x - (x / y):floor() * y')
function meta.__call(x)
  blame.raise(('a tensor is no function: %s cannot be called; x[i] is an element'):format(
    x:describe()))
end
meta.__tostring = text
function meta.__concat(a, b) return tostring(a) .. tostring(b) end

ref.finish(meta)

local property_docs = {}
for name, entry in pairs(properties) do property_docs[name] = entry[2] end
types.register('Tensor', ref.is, { methods = docs, properties = property_docs })

--- Is this value a tensor?
---@param value any
---@return boolean
function M.is(value)
  return ref.is(value)
end

return M
