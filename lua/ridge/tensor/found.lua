-- SPDX-License-Identifier: MIT
--- Which elements there are, as methods: results whose size depends on the numbers, so that they
--- are worked out on the host and cannot be recorded; and norms over channels.

local ffi = require 'ffi'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local indexing = require 'ridge.tensor.indexing'
local make = require 'ridge.tensor.make'
local options = require 'ridge.options'
local pieces = require 'ridge.tensor.pieces'
local ref = require 'ridge.ffi.ref'
local run = require 'ridge.tensor.run'

local M = { methods = {}, docs = {} }

local methods, docs = M.methods, M.docs
local surplus = require('ridge.tensor.elementwise').surplus
local need = ref.need

-- The elements of x as an array of C's.
local function array_of(x, type, what)
  local array, at = ffi.new(type .. '[?]', math.max(1, x.count)), 0
  pieces.read(x, what, function(buffer, bytes)
    ffi.copy(ffi.cast('char *', array) + at, buffer, bytes)
    at = at + bytes
  end)
  return array
end

-- A tensor of i64 with what is in an array.
local function whole_of(array, shape, device, what)
  local x, at = make.empty(shape, { dtype = 'i64' }), 0
  pieces.write(x, what, function(buffer, bytes)
    ffi.copy(buffer, ffi.cast('char *', array) + at, bytes)
    at = at + bytes
  end)
  return device == 'cpu' and x or x:to(device)
end

docs.nonzero = 'nonzero(): the positions of all elements that are not 0, from 0; not recorded'
--- The positions of all elements that are not 0 (nan is not), in order.  How many there are depends
--- on the numbers, so that a plan cannot have it.
---@param x Tensor
---@return Tensor i64 [how many x axes of x], from 0
-- >> ridge.tensor({ 3, 0, 5 }):nonzero()
function methods.nonzero(x, extra)
  if extra ~= nil then surplus('nonzero', '', extra) end
  need(x, 'nonzero')
  local is = array_of(x:detach():ne(0), 'uint8_t', 'nonzero')
  local n, count, ndim, shape = 0, x.count, x.ndim, x:size()
  call.stretches(count, 'nonzero', function(first, last)
    local some = 0
    for i = first, last do some = some + is[i] end
    n = n + some
  end)
  local places, at = ffi.new('int64_t[?]', math.max(1, n * ndim)), 0
  call.stretches(count, 'nonzero', function(first, last)
    local to = at
    for i = first, last do
      if is[i] ~= 0 then
        local rest = i
        for k = ndim, 1, -1 do
          places[to * ndim + k - 1] = rest % shape[k]
          rest = math.floor(rest / shape[k])
        end
        to = to + 1
      end
    end
    at = to
  end)
  return whole_of(places, { n, ndim }, x.device, 'nonzero')
end

docs.compress = 'compress(condition, axis): what a list of truths says of an axis; not recorded'
--- The parts of an axis for which a condition holds; of all elements in order without an axis.  How
--- many there are depends on the numbers, so that a plan cannot have it.
---@param x Tensor
---@param condition Tensor [at most the axis]: 0 leaves a part out
---@param axis number|nil
---@return Tensor
-- >> ridge.arange(1, 4):compress(ridge.tensor({ 1, 0, 1 }))
function methods.compress(x, condition, axis, extra)
  if extra ~= nil then surplus('compress', 'condition, axis', extra) end
  need(x, 'compress')
  need(condition, 'compress')
  if axis == nil then x, axis = x:reshape(-1), 1 end
  axis = indexing.axis(x, axis, 'compress')
  if condition.ndim ~= 1 or condition.count > x:size(axis) then
    blame.raise(('compress: the condition %s is no list of at most %d'):format(
      condition:describe(), x:size(axis)), 'ESHAPE', 'compress')
  end
  return x:index_select(axis, condition:nonzero():reshape(-1))
end

local UNIQUE = {
  sorted = { 'boolean', default = true, doc = 'in order; else as they first stand' },
}

docs.unique = 'unique({sorted = true}): each value once, where it first stands, which one each '
  .. 'element is, and how often it is there; not recorded'
--- Each value once.  How many there are depends on the numbers, so that a plan cannot have it; nan
--- is equal to nan.
---@param x Tensor
---@param opts table|nil {sorted = true}
---@return Tensor values
---@return Tensor first i64: where in x each one first stands, from 0
---@return Tensor inverse i64: which value each element of x is, from 0
---@return Tensor counts i64: how often each one is there
-- >> values, first, inverse, counts = ridge.tensor({ 2, 1, 2 }):unique()
function methods.unique(x, opts, extra)
  if extra ~= nil then surplus('unique', 'opts', extra) end
  need(x, 'unique')
  opts = options.check(UNIQUE, opts, 'unique')
  local flat = x:detach():reshape(-1)
  local n = flat.count
  local ordered, positions = flat:sort(1)
  local place, differs = array_of(positions, 'int64_t', 'unique'), nil
  if n > 1 then
    local a, b = ordered:narrow(1, 1, n - 1), ordered:narrow(1, 2, n - 1)
    -- of two that are not equal both may be nan
    differs = array_of(a:ne(b) * (a:eq(a) + b:eq(b)):ne(0), 'uint8_t', 'unique')
  end
  local first, counts = ffi.new('int64_t[?]', n + 1), ffi.new('int64_t[?]', n + 1)
  local inverse, m = ffi.new('int64_t[?]', n + 1), 0
  call.stretches(n, 'unique', function(from, to)
    local k = m
    for i = from, to do
      if i == 0 or differs[i - 1] ~= 0 then
        first[k] = place[i] -- sorting keeps equal ones in their order
        k = k + 1
      end
      counts[k - 1] = counts[k - 1] + 1
      inverse[tonumber(place[i])] = k - 1
    end
    m = k
  end)
  local device = x.device
  local at = whole_of(first, { m }, device, 'unique')
  local which = whole_of(inverse, { n }, device, 'unique')
  local many = whole_of(counts, { m }, device, 'unique')
  if not opts.sorted then
    local order
    at, order = at:sort(1)
    many = many:take(order)
    which = select(2, order:sort(1)):take(which)
  end
  return flat:take(at), at, which, many
end

-- -- Norms ------------------------------------------------------------------------------------

local group_norm = run.of 'group_norm'
local INSTANCE = {
  weight = { 'any', doc = 'a factor for each channel' },
  bias = { 'any', doc = 'a summand for each channel' },
  eps = { 'number', default = 1e-5, min = 0, max = 1e300, doc = 'added to the variance' },
}

docs.instance_norm = 'instance_norm({weight =, bias =, eps = 1e-5}): each channel of each sample '
  .. 'with mean 0 and variance 1'
--- Each channel of each sample with mean 0 and variance 1: group norm with groups of one channel.
---@param x Tensor [n x c x ...]
---@param opts table|nil {weight = [c], bias = [c], eps = 1e-5}
---@return Tensor
-- >> ridge.randn(2, 3, 4, 4):instance_norm()
function methods.instance_norm(x, opts, extra)
  if extra ~= nil then surplus('instance_norm', 'opts', extra) end
  need(x, 'instance_norm')
  opts = options.check(INSTANCE, opts, 'instance_norm')
  if x.ndim < 3 then
    blame.raise(('instance_norm: x is %s, wanted [n x c x ...]'):format(x:describe()), 'ESHAPE',
      'instance_norm')
  end
  return group_norm({ x, opts.weight, opts.bias }, { groups = x:size(2), eps = opts.eps })
end

local LRN = {
  alpha = { 'number', default = 1e-4, doc = 'factor of the mean square' },
  beta = { 'number', default = 0.75, doc = 'power' },
  bias = { 'number', default = 1, doc = 'added to it' },
}

docs.lrn = 'lrn(size, {alpha = 1e-4, beta = 0.75, bias = 1}): local response normalisation over '
  .. 'neighbouring channels'
--- Local response normalisation (Krizhevsky et al., 2012): x / (bias + alpha mean square of `size`
--- neighbouring channels)^beta; channels outside count as 0.
---@param x Tensor [n x c x ...]
---@param size number of channels
---@param opts table|nil {alpha = 1e-4, beta = 0.75, bias = 1}
---@return Tensor
-- >> ridge.ones(1, 4, 2, 2):lrn(3)
function methods.lrn(x, size, opts, extra)
  if extra ~= nil then surplus('lrn', 'size, opts', extra) end
  need(x, 'lrn')
  opts = options.check(LRN, opts, 'lrn')
  if type(size) ~= 'number' or size ~= math.floor(size) or size < 1 or size > 2 ^ 30 then
    blame.raise('lrn: size is a whole number from 1, got ' .. blame.show(size), 'EARG', 'lrn')
  end
  if x.ndim < 2 or x.count == 0 then
    if x.ndim >= 2 then return x:clone() end
    blame.raise(('lrn: x is %s, wanted [n x c x ...]'):format(x:describe()), 'ESHAPE', 'lrn')
  end
  local n, c = x:size(1), x:size(2)
  local before = math.floor((size - 1) / 2)
  local wide = x.dtype == 'f16' and x:to 'f32' or x -- squares beyond 255 are infinite in f16
  local mean = wide:square():reshape(n, 1, c, -1):avg_pool({ size, 1 }, { stride = 1,
    padding = { { before, size - 1 - before }, 0 } })
  return (wide / (mean:reshape(x:size()) * opts.alpha + opts.bias):pow(opts.beta)):to(x.dtype)
end

return M
