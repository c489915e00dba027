-- SPDX-License-Identifier: MIT
--- Functions of tensors that are made of others, in Lua: a record of their own would gain nothing.

local blame = require 'ridge.blame'
local choose = require 'ridge.tensor.choose'
local elementwise = require 'ridge.tensor.elementwise'
local make = require 'ridge.tensor.make'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'

local M = { methods = {}, docs = {} }

local methods, docs = M.methods, M.docs
local need, surplus = ref.need, elementwise.surplus
local element = elementwise.methods

-- -- Elements -----------------------------------------------------------------------------------

docs.clamp = 'clamp(low, high): no smaller than low and no larger than high; nan stays nan'
--- No smaller than low and no larger than high, of which one may be nil; nan stays nan.
---@param x Tensor
---@param low Tensor|number|nil
---@param high Tensor|number|nil where it is below low, it wins
---@return Tensor
-- >> ridge.tensor({ -2, 0.5, 3 }):clamp(-1, 1)
function methods.clamp(x, low, high, extra)
  if extra ~= nil then surplus('clamp', 'low, high', extra) end
  need(x, 'clamp')
  if low == nil and high == nil then
    blame.raise('clamp: a lowest or a highest value is expected', 'EARG', 'clamp')
  end
  return blame.within('clamp', function()
    local y = low ~= nil and element.maximum(x, low) or x
    return high ~= nil and element.minimum(y, high) or y
  end)
end

docs.leaky_relu = 'leaky_relu(slope = 0.01): x where it is above 0, else slope times x'
--- x where it is above 0, else slope times x.
---@param x Tensor
---@param slope number|nil 0.01 when left out
---@return Tensor
-- >> ridge.tensor({ -2, 3 }):leaky_relu(0.1)
function methods.leaky_relu(x, slope, extra)
  if extra ~= nil then surplus('leaky_relu', 'slope', extra) end
  need(x, 'leaky_relu')
  if slope == nil then slope = 0.01 end
  if type(slope) ~= 'number' then
    blame.raise('leaky_relu: slope is a number, got ' .. blame.show(slope), 'EARG', 'leaky_relu')
  end
  return blame.within('leaky_relu', function() return element.prelu(x, slope) end)
end

-- -- Over axes ----------------------------------------------------------------------------------

-- Is one other than 0?  Nothing has a maximum, but a sum.
local function one_of(x, axes, keep)
  if x.dtype ~= 'bool' then x = x:ne(0) end
  if x.count > 0 then return x:max(axes, keep) end
  return x:sum(axes, keep):gt(0)
end

docs.any = 'any(axes = all, keep = false): is one element over axes other than 0?'
--- Is one element over axes other than 0? Of none, false.
---@param x Tensor
---@param axes number|table|nil all when left out
---@param keep boolean|nil the axes stay with size 1
---@return Tensor bool
-- >> ridge.tensor({ { 0, 0 }, { 0, 3 } }):any(2)
function methods.any(x, axes, keep, extra)
  if extra ~= nil then surplus('any', 'axes, keep', extra) end
  need(x, 'any')
  return blame.within('any', function() return one_of(x, axes, keep) end)
end

docs.all = 'all(axes = all, keep = false): are all elements over axes other than 0?'
--- Are all elements over axes other than 0? Of none, true.
---@param x Tensor
---@param axes number|table|nil all when left out
---@param keep boolean|nil the axes stay with size 1
---@return Tensor bool
-- >> ridge.tensor({ { 1, 0 }, { 2, 3 } }):all(2)
function methods.all(x, axes, keep, extra)
  if extra ~= nil then surplus('all', 'axes, keep', extra) end
  need(x, 'all')
  return blame.within('all', function()
    return one_of(element.logical_not(x), axes, keep):logical_not()
  end)
end

docs.logsumexp = 'logsumexp(axes = all, keep = false): log(sum(exp(x))) over axes, never too large'
--- log(sum(exp(x))) over axes, without numbers that are too large on the way: the largest element
--- is subtracted first and added at the end. Of none, -infinity.
---@param x Tensor
---@param axes number|table|nil all when left out
---@param keep boolean|nil the axes stay with size 1
---@return Tensor
-- >> ridge.tensor({ 1000, 1000 }):logsumexp()
function methods.logsumexp(x, axes, keep, extra)
  if extra ~= nil then surplus('logsumexp', 'axes, keep', extra) end
  need(x, 'logsumexp')
  return blame.within('logsumexp', function()
    if x.dtype == 'f16' then -- the sum of many is infinite in it
      return M.methods.logsumexp(x:to 'f32', axes, keep):to 'f16'
    end
    if x.count == 0 then return x:exp():sum(axes, keep):log() end
    local most = x:detach():max(axes, true)
    most = choose.where(most:isfinite(), most, 0) -- infinity less infinity would be nan
    local y = (x - most):exp():sum(axes, keep):log()
    return y + (keep and most or most:reshape(y:size()))
  end)
end

-- -- Making -------------------------------------------------------------------------------------

local ONE_HOT = {
  dtype = { 'string', default = 'i64', doc = 'element type' },
}

--- Rows that are 1 where a number says and 0 elsewhere. A number that is none of a place has a row
--- of zeros.
---@param index Tensor [...] of whole numbers, from 0
---@param n number|nil places of a row; one more than the largest number when left out
---@param opts table|nil {dtype = 'i64'}
---@return Tensor [... x n]
-- >> ridge.one_hot(ridge.tensor({ 2, 0 }, { dtype = 'i64' }), 3)
function M.one_hot(index, n, opts)
  need(index, 'one_hot')
  opts = options.check(ONE_HOT, opts, 'one_hot')
  if index.dtype:find 'f' or index.dtype == 'bool' then
    blame.raise('one_hot: whole numbers are expected, got ' .. index:describe(), 'EDTYPE',
      'one_hot')
  end
  return blame.within('one_hot', function()
    if n == nil then n = index.count > 0 and index:max():item() + 1 or 0 end
    if type(n) ~= 'number' or n ~= math.floor(n) or n < 0 then
      blame.raise('one_hot: n is a whole number from 0, got ' .. blame.show(n), 'EARG', 'one_hot')
    end
    local places = make.arange(0, n - 1, { dtype = 'i64', device = index.device })
    return index:unsqueeze(-1):eq(places):to(opts.dtype)
  end)
end

return M
