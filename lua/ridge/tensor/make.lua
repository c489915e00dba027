-- SPDX-License-Identifier: MIT
--- Making tensors: from sizes, from numbers in Lua, from random numbers.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local ref = require 'ridge.ffi.ref'
local blame = require 'ridge.blame'
local options = require 'ridge.options'
local dtype = require 'ridge.tensor.dtype'
local place = require 'ridge.tensor.place'
local random = require 'ridge.random'

local M = {}

local slot, wrap = ref.slot, ref.wrap
local shape_t = ffi.typeof 'int64_t[8]'
local MAX_DIMS = C.RG_MAX_DIMS

local MAKE = {
  dtype = { 'string', default = 'f32', names = dtype.names, doc = 'element type' },
  device = { 'string', names = { 'cpu', 'auto', 'cuda:0' },
    doc = 'where it lives; what ridge.set_default_device says when left out' },
  pinned = { 'boolean', default = false,
    doc = "in memory of the CPU's that a GPU's copies reach by themselves" },
}
local DRAW = {
  dtype = MAKE.dtype, device = MAKE.device, pinned = MAKE.pinned,
  generator = { 'table|cdata', doc = 'a random stream made by ridge.generator' },
}

local DRAW_WHOLE = {
  dtype = { 'string', default = 'i64', names = dtype.names, doc = 'element type' },
  device = MAKE.device, pinned = MAKE.pinned, generator = DRAW.generator,
}

--- A list of sizes as C reads it.
---@param sizes table
---@param what string the function asking, for errors
---@param negative boolean|nil C works out what a negative size means
---@return number of axes
---@return cdata int64_t array, of this call alone
function M.shape(sizes, what, negative)
  local n = #sizes
  if n > MAX_DIMS then
    blame.raise(('%s: %d axes; at most %d are possible'):format(what, n, MAX_DIMS), 'ESHAPE')
  end
  local shape = shape_t()
  for i = 1, n do
    local size = sizes[i]
    if type(size) ~= 'number' or size ~= math.floor(size) or math.abs(size) > 2 ^ 53 then
      blame.raise(('%s: size %d is %s; sizes are whole numbers up to 2^53'):format(what, i,
        blame.show(size)), 'ESHAPE')
    end
    if size < 0 and not negative then
      blame.raise(('%s: size %d is %d; none is negative here'):format(what, i, size), 'ESHAPE')
    end
    shape[i - 1] = size
  end
  return n, shape
end

--- Split (2, 3, {dtype = ...}) or ({2, 3}, {...}) into sizes and checked options.
local function parse(what, spec, ...)
  local given = { ... }
  local n = select('#', ...)
  local opts
  local last = given[n]
  if type(last) == 'table' and (n > 1 or #last == 0 and next(last) ~= nil) then
    opts = last
    given[n] = nil
    n = n - 1
  end
  if n == 1 and type(given[1]) == 'table' then
    given = options.list(given[1], what)
    n = #given
  end
  for i = 1, n do
    if given[i] == nil then
      blame.raise(('%s: size %d is nil'):format(what, i), 'ESHAPE')
    end
  end
  return given, options.check(spec, opts, what)
end

--- A new tensor with undefined elements.
local function empty(what, sizes, opts)
  local code, device = dtype.code(opts.dtype, what), place.of(opts, what)
  call.settle()
  local ndim, shape = M.shape(sizes, what)
  local st = C.rg_empty(code, device, shape, ndim, slot)
  if st == C.RG_ENOMEM then
    call.again(st, C.rg_empty, code, device, shape, ndim, slot)
  elseif st ~= 0 then
    call.fail(st, what)
  end
  return wrap(slot[0])
end

--- A tensor of the given sizes whose elements are whatever lay in memory.
---@param ... any sizes, then options {dtype =, device =, pinned =}
---@return Tensor
-- >> ridge.empty(2, 3).shape
function M.empty(...)
  return empty('empty', parse('empty', MAKE, ...))
end

--- A tensor of the given sizes filled with one number.
---@param value number
---@param ... any sizes, then options {dtype =, device =, pinned =}
---@return Tensor
-- >> ridge.full(7, 2, 2)
function M.full(value, ...)
  if type(value) ~= 'number' then
    blame.raise(('full: a number is expected, got %s'):format(type(value)))
  end
  local x = empty('full', parse('full', MAKE, ...))
  call.check(C.rg_fill_(x._t, value))
  return x
end

--- Zeros.
---@param ... any sizes, then options {dtype =, device =, pinned =}
---@return Tensor
-- >> ridge.zeros(2, 3)
function M.zeros(...)
  local x = empty('zeros', parse('zeros', MAKE, ...))
  call.check(C.rg_fill_(x._t, 0))
  return x
end

--- Ones.
---@param ... any sizes, then options {dtype =, device =, pinned =}
---@return Tensor
-- >> ridge.ones(2, 3)
function M.ones(...)
  local x = empty('ones', parse('ones', MAKE, ...))
  call.check(C.rg_fill_(x._t, 1))
  return x
end

--- first, first + step, ... up to last (included when it is met).
---@param first number
---@param last number
---@param step number|table|nil distance, 1 when left out; or options
---@param opts table|nil {dtype =, device =, pinned =}
---@return Tensor
-- >> ridge.arange(0, 4)
function M.arange(first, last, step, opts)
  if type(step) == 'table' then step, opts = nil, step end
  step = step or 1
  if type(first) ~= 'number' or type(last) ~= 'number' or type(step) ~= 'number' or step == 0 then
    blame.raise('arange: first, last and a step other than 0 are numbers')
  end
  opts = options.check(MAKE, opts, 'arange')
  local n = math.max(0, math.floor((last - first) / step + 1e-9) + 1)
  local x = empty('arange', { n }, opts)
  call.check(C.rg_arange_(x._t, first, step))
  return x
end

--- n numbers from first to last, both included, as far apart as they all can be.
---@param first number
---@param last number
---@param n number how many, from 0; one is first
---@param opts table|nil {dtype =, device =, pinned =}
---@return Tensor
-- >> ridge.linspace(0, 1, 5)
function M.linspace(first, last, n, opts)
  if type(first) ~= 'number' or type(last) ~= 'number' then
    blame.raise('linspace: first and last are numbers')
  end
  if type(n) ~= 'number' or n ~= math.floor(n) or n < 0 then
    blame.raise('linspace: n is a whole number from 0, got ' .. blame.show(n))
  end
  local x = empty('linspace', { n }, options.check(MAKE, opts, 'linspace'))
  call.check(C.rg_arange_(x._t, first, n > 1 and (last - first) / (n - 1) or 0))
  if n > 1 then -- the last one exactly, whatever the distance was rounded to
    call.check(C.rg_fill_(x:narrow(1, n, 1)._t, last))
  end
  return x
end

--- Ones on the diagonal of a matrix, zeros elsewhere.
---@param n number rows
---@param m number|table|nil columns, as many as rows when left out; or options
---@param opts table|nil {dtype =, device =, pinned =}
---@return Tensor
-- >> ridge.eye(2, 3)
function M.eye(n, m, opts)
  if type(m) == 'table' then m, opts = nil, m end
  if n == nil then blame.raise('eye: the number of rows is a whole number from 0, got nil') end
  if m == nil then m = n end
  local x = empty('eye', { n, m }, options.check(MAKE, opts, 'eye'))
  call.check(C.rg_fill_(x._t, 0))
  if n > 0 and m > 0 then
    local diagonal = x:reshape(-1):narrow(1, 1, math.min(n, m), m + 1)
    call.check(C.rg_fill_(diagonal._t, 1))
  end
  return x
end

-- -- From numbers in Lua ------------------------------------------------------------------

local function measure(value, depth, sizes)
  if type(value) ~= 'table' then return end
  sizes[depth] = #value
  if depth > MAX_DIMS then
    blame.raise(('tensor: lists are nested more than %d deep'):format(MAX_DIMS), 'ESHAPE')
  end
  measure(value[1], depth + 1, sizes)
end

local function flatten(value, depth, sizes, buffer, at)
  if depth > #sizes then
    if type(value) == 'boolean' then value = value and 1 or 0 end
    if type(value) ~= 'number' then
      blame.raise(('tensor: element %d is %s, a number is expected'):format(at + 1,
        type(value) == 'table' and 'a list' or tostring(value)), 'ESHAPE')
    end
    buffer[at] = value
    return at + 1
  end
  if type(value) ~= 'table' or #value ~= sizes[depth] then
    blame.raise(('tensor: lists of axis %d differ in length (%d and %s)'):format(depth,
      sizes[depth], type(value) == 'table' and #value or 'a number'), 'ESHAPE')
  end
  if table.maxn(value) > #value then -- what stands behind a hole would be lost
    blame.raise(('tensor: element %d of a list is nil, and one behind it is not'):format(
      #value + 1), 'ESHAPE')
  end
  for first = 1, #value, call.STRETCH do
    if first > 1 then call.look 'tensor' end
    for i = first, math.min(#value, first + call.STRETCH - 1) do
      at = flatten(value[i], depth + 1, sizes, buffer, at)
    end
  end
  return at
end

--- A tensor from a number or nested lists of numbers.
---@param values number|boolean|table
---@param opts table|nil {dtype =, device =, pinned =}; f32 when left out
---@return Tensor
-- >> ridge.tensor{{1, 2}, {3, 4}}
function M.tensor(values, opts)
  opts = options.check(MAKE, opts, 'tensor')
  if ref.is(values) then
    return ref.need(values, 'tensor'):to { dtype = opts.dtype, device = opts.device,
      pinned = opts.pinned or nil }
  end
  if type(values) ~= 'number' and type(values) ~= 'table' and type(values) ~= 'boolean' then
    blame.raise(('tensor: a number or lists of numbers are expected, got %s'):format(type(values)))
  end
  local sizes = {}
  measure(values, 1, sizes)
  local count = 1
  for _, size in ipairs(sizes) do count = count * size end
  local buffer = ffi.new('double[?]', math.max(count, 1))
  flatten(values, 1, sizes, buffer, 0)
  local code = dtype.code(opts.dtype, 'tensor')
  local device = place.of(opts, 'tensor')
  call.settle()
  local ndim, shape = M.shape(sizes, 'tensor')
  local st = C.rg_tensor_from_doubles(buffer, count, code, shape, ndim, slot)
  if st ~= 0 then call.fail(st) end
  local made = wrap(slot[0])
  if device == 0 then return made end
  local host = made._t
  call.run('tensor', C.rg_to_device, host, device, slot)
  local moved = wrap(slot[0])
  made:release()
  return moved
end

-- -- Random -------------------------------------------------------------------------------

--- Normal random numbers with mean 0 and standard deviation 1.
---@param ... any sizes, then options {dtype =, device =, pinned =, generator =}
---@return Tensor
-- >> ridge.randn(2, 3)
function M.randn(...)
  local sizes, opts = parse('randn', DRAW, ...)
  local x = empty('randn', sizes, opts)
  call.check(C.rg_normal_(x._t, 0, 1, random.pointer(opts.generator, 'randn')))
  return x
end

--- Uniform random numbers from 0 to 1, 1 excluded.
---@param ... any sizes, then options {dtype =, device =, pinned =, generator =}
---@return Tensor
-- >> ridge.rand(2, 3)
function M.rand(...)
  local sizes, opts = parse('rand', DRAW, ...)
  local x = empty('rand', sizes, opts)
  call.check(C.rg_uniform_(x._t, 0, 1, random.pointer(opts.generator, 'rand')))
  return x
end

--- Random whole numbers from low to high, high excluded; i64 unless told otherwise.
---@param low number
---@param high number
---@param ... any sizes, then options {dtype =, device =, pinned =, generator =}
---@return Tensor
-- >> ridge.randint(0, 10, 5)
function M.randint(low, high, ...)
  if type(low) ~= 'number' or type(high) ~= 'number' then
    blame.raise('randint: low and high are numbers')
  end
  for _, n in ipairs { low, high } do
    if n ~= math.floor(n) or n < -2 ^ 63 or n >= 2 ^ 63 then
      blame.raise('randint: low and high are whole numbers from -2^63 to below 2^63, got '
        .. blame.show(n))
    end
  end
  local sizes, opts = parse('randint', DRAW_WHOLE, ...)
  local x = empty('randint', sizes, opts)
  call.check(C.rg_randint_(x._t, low, high, random.pointer(opts.generator, 'randint')))
  return x
end

-- -- On the CPU ---------------------------------------------------------------------------

local function back(before, ok, ...)
  place.set_default(before)
  if not ok then error((...), 0) end
  return ...
end

--- The same functions for what has to be on the CPU when no device is given, whatever the default
--- device is: what the host reads and writes.
M.here = {}
for name, f in pairs(M) do
  if type(f) == 'function' and name ~= 'shape' then
    M.here[name] = function(...)
      local before = place.default()
      if before == 0 then return f(...) end
      place.set_default(0)
      return back(before, pcall(f, ...))
    end
  end
end

return M
