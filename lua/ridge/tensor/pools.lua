-- SPDX-License-Identifier: MIT
--- Pooling over one, two or three axes as methods, with what the pooling of images does not have:
--- sizes that are rounded up, windows with gaps, norms.

local blame = require 'ridge.blame'
local image = require 'ridge.tensor.image'
local make = require 'ridge.tensor.make'
local numbers = require 'ridge.tensor.windows'
local options = require 'ridge.options'

local M = { methods = {}, docs = {} }

local methods, docs = M.methods, M.docs
local surplus = require('ridge.tensor.elementwise').surplus
local each, padding, axes_of, padded = numbers.each, numbers.padding, numbers.axes_of,
  numbers.padded

local POOL = {
  stride = { 'number|table', doc = 'step, or one for each axis; the size when left out' },
  padding = { 'number|table', default = 0,
    doc = 'around: a number, one for each axis, or {before, behind} for each' },
  dilation = { 'number|table', default = 1, doc = "distance of a window's elements" },
  ceil_mode = { 'boolean', default = false,
    doc = 'one more window where the last element would be left over' },
}

-- What is known of each axis: size of windows k, step s, padding, gaps, results n, and how far
-- windows reach behind the padding.
local function plan(x, size, opts, what)
  local d = axes_of(x, what)
  local p = { d = d, k = each(size, d, what, 'the size', 1), extra = {}, n = {},
    dilation = each(opts.dilation, d, what, 'dilation', 1) }
  p.s = opts.stride == nil and p.k or each(opts.stride, d, what, 'stride', 1)
  p.low, p.high = padding(opts.padding, d, what)
  for i = 1, d do
    local all = x:size(i + 2) + p.low[i] + p.high[i]
    local reach = p.dilation[i] * (p.k[i] - 1) + 1
    local n = (all - reach) / p.s[i]
    n = (opts.ceil_mode and math.ceil(n) or math.floor(n)) + 1
    -- none that begins behind what is there
    if opts.ceil_mode and (n - 1) * p.s[i] >= x:size(i + 2) + p.low[i] then n = n - 1 end
    if n < 1 or x:size(i + 2) < 1 then
      blame.raise(('%s: a window of %d does not fit into axis %d of %s'):format(what, p.k[i], i + 2,
        x:describe()), 'ESHAPE', what)
    end
    p.n[i] = n
    p.extra[i] = math.max(0, (n - 1) * p.s[i] + reach - all)
  end
  return p
end

-- Can the pooling of images do it?
local function plain(p)
  for i = 1, p.d do
    if p.dilation[i] ~= 1 or p.low[i] >= p.k[i] or p.high[i] + p.extra[i] >= p.k[i] then
      return false
    end
  end
  return true
end

local function images(x, name, k, s, low, high, skip)
  local opts = { stride = s, padding = { low[1], low[2], high[1], high[2] }, layout = 'nchw' }
  if name == 'avg_pool2d' then opts.skip_padding = skip end
  return image.methods[name](x, k, opts)
end

-- By the pooling of images: windows of three axes are those of two, and then of one.
local function direct(x, name, p, skip)
  local high = {}
  for i = 1, p.d do high[i] = p.high[i] + p.extra[i] end
  local k, s, low = p.k, p.s, p.low
  if p.d == 1 then
    return images(x:unsqueeze(3), name, { 1, k[1] }, { 1, s[1] }, { 0, low[1] }, { 0, high[1] },
      skip):squeeze(3)
  elseif p.d == 2 then
    return images(x, name, k, s, low, high, skip)
  end
  local n, c, depth, h, w = unpack(x:size())
  local y = images(x:reshape(n, c * depth, h, w), name, { k[2], k[3] }, { s[2], s[3] },
    { low[2], low[3] }, { high[2], high[3] }, skip)
  h, w = p.n[2], p.n[3]
  y = images(y:reshape(n, c, depth, h * w), name, { k[1], 1 }, { s[1], 1 }, { low[1], 0 },
    { high[1], 0 }, skip)
  return y:reshape(n, c, p.n[1], h, w)
end

-- One axis after the other: the elements of windows, taken in steps, meet by f.
local function by_steps(x, p, f)
  for i = 1, p.d do
    local y
    for at = 0, p.k[i] - 1 do
      local part = x:narrow(i + 2, at * p.dilation[i] + 1, p.n[i], p.s[i])
      y = y and f(y, part) or part
    end
    x = y
  end
  return x
end

local function around(p)
  local high = {}
  for i = 1, p.d do high[i] = p.high[i] + p.extra[i] end
  return p.low, high
end

-- Where the largest of each window is, in its plane, from 0: the first of equal ones, and of nan.
local function positions_of(x, p)
  local low, high = around(p)
  local sizes, all, every = { 1, 1 }, 1, 1
  for i = 1, p.d do
    sizes[i + 2] = x:size(i + 2)
    all, every = all * sizes[i + 2], every * p.k[i]
  end
  local place = padded(make.arange(0, all - 1, 1, { dtype = 'i64', device = x.device })
    :reshape(sizes), low, high, -1)
  x = padded(x, low, high, -math.huge)
  local most, at
  for n = 0, every - 1 do
    local value, here, rest = x, place, n
    for i = p.d, 1, -1 do
      local offset = rest % p.k[i]
      rest = math.floor(rest / p.k[i])
      value = value:narrow(i + 2, offset * p.dilation[i] + 1, p.n[i], p.s[i])
      here = here:narrow(i + 2, offset * p.dilation[i] + 1, p.n[i], p.s[i])
    end
    if not most then
      most, at = value, here + value:ne(value) * 0 -- of the shape of the values
    else
      local better = value:gt(most) + value:ne(value) * most:eq(most) + at:lt(0) * here:ge(0)
      at = at + (here - at) * better:ne(0):to 'i64'
      most = most:maximum(value)
    end
  end
  return at
end

-- Whole numbers go through a float type that holds them; i64, which none does, is compared itself.
local MAX = { indices = { 'boolean', default = false,
  doc = 'a second result: where in its plane each one is, from 0' } }
for name, rule in pairs(POOL) do MAX[name] = rule end
local WIDE = { i8 = 'f32', u8 = 'f32', i32 = 'f64' }

docs.max_pool = 'max_pool(size, {stride = size, padding = 0, dilation = 1, ceil_mode = false}): '
  .. 'the largest of each window of one to three axes'
--- The largest of each window over one, two or three axes; nan wins, padding never does.  Where
--- windows have gaps, equal elements share the gradient.
---@param x Tensor [n x c x 1 to 3 axes]
---@param size number|table of the window
---@param opts table|nil {stride =, padding = 0, dilation = 1, ceil_mode = false, indices =
---  false}
---@return Tensor
---@return Tensor|nil with `indices` where in its plane (all axes but the first two) each one is,
---  from 0, as i64: the first of equal ones
-- >> ridge.arange(0, 4):reshape(1, 1, 5):max_pool(2, { ceil_mode = true })
function methods.max_pool(x, size, opts, extra)
  if extra ~= nil then surplus('max_pool', 'size, opts', extra) end
  axes_of(x, 'max_pool')
  opts = options.check(MAX, opts, 'max_pool')
  local p, dtype = plan(x, size, opts, 'max_pool'), x.dtype
  if WIDE[dtype] then x = x:to(WIDE[dtype]) end
  local y
  if dtype ~= 'i64' and plain(p) then
    y = direct(x, 'max_pool2d', p)
  else
    local low, high = around(p)
    y = by_steps(padded(x, low, high, -math.huge), p, function(a, b) return a:maximum(b) end)
  end
  if y.dtype ~= dtype then y = y:to(dtype) end
  if opts.indices then return y, positions_of(x:detach(), p) end
  return y
end

-- Sums of half types, and powers of f16, go through f32: 256 and 1 are 256 in bf16, and the square
-- of 300 is infinite in f16.
local function widened(x)
  return (x.dtype == 'f16' or x.dtype == 'bf16') and x:to 'f32' or x
end

local AVERAGE = { count_padding = { 'boolean', default = true,
  doc = 'padding counts as zeros; else averages are those of what lies in the tensor' } }
for name, rule in pairs(POOL) do AVERAGE[name] = rule end

local function none(p)
  local list = {}
  for i = 1, p.d do list[i] = 0 end
  return list
end

-- How many elements of each window count, by the same sums over ones.
local function counts(x, p, count_padding)
  local ones = make.ones({ 1, 1, unpack(x:size(), 3) }, { dtype = x.dtype, device = x.device })
  local low, high = around(p)
  if count_padding then
    ones = padded(padded(ones, p.low, p.high, 1), none(p), p.extra, 0)
  else
    ones = padded(ones, low, high, 0)
  end
  return by_steps(ones, p, function(a, b) return a + b end)
end

docs.avg_pool = 'avg_pool(size, {stride = size, padding = 0, dilation = 1, ceil_mode = false, '
  .. 'count_padding = true}): the average of each window of one to three axes'
--- The average of each window over one, two or three axes.  What a window has behind the padding,
--- where sizes are rounded up, never counts.
---@param x Tensor [n x c x 1 to 3 axes]
---@param size number|table of the window
---@param opts table|nil {stride =, padding = 0, dilation = 1, ceil_mode = false, count_padding =
---  true}
---@return Tensor
-- >> ridge.arange(0, 4):reshape(1, 1, 5):avg_pool(2, { ceil_mode = true })
function methods.avg_pool(x, size, opts, extra)
  if extra ~= nil then surplus('avg_pool', 'size, opts', extra) end
  axes_of(x, 'avg_pool')
  opts = options.check(AVERAGE, opts, 'avg_pool')
  local p = plan(x, size, opts, 'avg_pool')
  local further = false
  for i = 1, p.d do further = further or p.extra[i] > 0 end
  if plain(p) then
    if not (further and opts.count_padding) then
      return direct(x, 'avg_pool2d', p, not opts.count_padding)
    end
    -- the padding becomes part of the tensor, and what is behind it does not count
    local wide = padded(x, p.low, p.high, 0)
    p.low, p.high = none(p), none(p)
    return direct(wide, 'avg_pool2d', p, true)
  end
  local low, high = around(p)
  local wide = widened(x)
  local sums = by_steps(padded(wide, low, high, 0), p, function(a, b) return a + b end)
  return (sums / counts(wide, p, opts.count_padding)):to(x.dtype)
end

local LP = { p = { 'number', default = 2, min = 1e-3, max = 1e3, doc = 'which norm' } }
for name, rule in pairs(POOL) do LP[name] = rule end

docs.lp_pool = 'lp_pool(size, {p = 2, stride = size, padding = 0}): the p-norm of each window of '
  .. 'one to three axes'
--- The p-norm of each window: (sum |x|^p)^(1/p).
---@param x Tensor [n x c x 1 to 3 axes]
---@param size number|table of the window
---@param opts table|nil {p = 2, stride =, padding = 0, dilation = 1, ceil_mode = false}
---@return Tensor
-- >> ridge.ones(1, 1, 4):lp_pool(4)
function methods.lp_pool(x, size, opts, extra)
  if extra ~= nil then surplus('lp_pool', 'size, opts', extra) end
  axes_of(x, 'lp_pool')
  opts = options.check(LP, opts, 'lp_pool')
  local p = plan(x, size, opts, 'lp_pool')
  local powers, all = widened(x):abs():pow(opts.p), 1
  for i = 1, p.d do all = all * p.k[i] end
  local sums
  if plain(p) then
    sums = direct(powers, 'avg_pool2d', p, false) * all
  else
    local low, high = around(p)
    sums = by_steps(padded(powers, low, high, 0), p, function(a, b) return a + b end)
  end
  return sums:pow(1 / opts.p):to(x.dtype)
end

return M
