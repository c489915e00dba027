-- SPDX-License-Identifier: MIT
--- Elements in another arrangement, as methods: in order, padded, backwards, repeated, and blocks
--- of pixels as channels.

local blame = require 'ridge.blame'
local indexing = require 'ridge.tensor.indexing'
local make = require 'ridge.tensor.make'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local run = require 'ridge.tensor.run'

local M = { methods = {}, docs = {} }

local methods, docs = M.methods, M.docs
local surplus = require('ridge.tensor.elementwise').surplus
local need, axis_of = ref.need, indexing.axis
local sort, topk, pad = run.of 'sort', run.of 'topk', run.of 'pad'

-- A whole number from least on.
local function whole(value, what, name, least)
  if type(value) ~= 'number' or value ~= math.floor(value) or math.abs(value) > 2 ^ 30
    or value < (least or -2 ^ 30) then
    blame.raise(('%s: %s is a whole number%s, got %s'):format(what, name,
      least and ' from ' .. least or '', blame.show(value)), 'EARG', what)
  end
  return value
end

-- -- In order -------------------------------------------------------------------------------

local SORT = { descending = { 'boolean', default = false, doc = 'the largest first' } }

docs.sort = 'sort(axis = -1, {descending = false}): values in order, and where each stood, from 0'
--- The elements along an axis in order, and where each stood.  Equal ones keep their order; nan is
--- the largest of all.
---@param x Tensor
---@param axis number|nil the last when left out
---@param opts table|nil {descending = false}
---@return Tensor values
---@return Tensor positions i64, from 0
-- >> values, positions = ridge.tensor({ 3, 1, 2 }):sort()
function methods.sort(x, axis, opts, extra)
  if extra ~= nil then surplus('sort', 'axis, opts', extra) end
  need(x, 'sort')
  opts = options.check(SORT, opts, 'sort')
  return sort({ x }, { axis = axis_of(x, axis or -1, 'sort') - 1,
    descending = opts.descending and 1 or 0 })
end

local TOPK = {
  largest = { 'boolean', default = true, doc = 'the largest; else the smallest' },
  sorted = { 'boolean', default = true, doc = 'in order; they are so in any case' },
}

docs.topk = 'topk(k, axis = -1, {largest = true}): the k largest in order, and where each stood'
--- The k largest along an axis, the largest first (or the smallest), and where each stood, from 0.
--- Of equal ones those that come first are taken; nan is the largest of all.
---@param x Tensor
---@param k number
---@param axis number|nil the last when left out
---@param opts table|nil {largest = true, sorted = true}
---@return Tensor values
---@return Tensor positions i64, from 0
-- >> values, positions = ridge.tensor({ 3, 1, 2 }):topk(2)
function methods.topk(x, k, axis, opts, extra)
  if extra ~= nil then surplus('topk', 'k, axis, opts', extra) end
  need(x, 'topk')
  whole(k, 'topk', 'k', 0)
  opts = options.check(TOPK, opts, 'topk')
  return topk({ x }, { k = k, axis = axis_of(x, axis or -1, 'topk') - 1,
    largest = opts.largest and 1 or 0 })
end

-- -- Padded ---------------------------------------------------------------------------------

local MODES = { constant = 0, reflect = 1, edge = 2, wrap = 3 }
local PAD = {
  mode = { 'string', default = 'constant', choices = { 'constant', 'reflect', 'edge', 'wrap' },
    doc = "what is there: one number, or the tensor's own elements" },
  value = { 'number', default = 0, doc = 'of a constant' },
}

-- Amounts for the last axes as those for all of them.
local function amounts(x, list)
  if type(list) ~= 'table' or #list > x.ndim then
    blame.raise(('pad: amounts are a list of {before, behind} for the last axes, %d at most for '
      .. '%s, got %s'):format(x.ndim, x:describe(), blame.show(list)), 'EARG', 'pad')
  end
  options.list(list, 'pad')
  local low, high = {}, {}
  for i = 1, x.ndim do
    local pair = list[i - x.ndim + #list] or 0
    if type(pair) == 'number' then pair = { pair, pair } end
    if type(pair) ~= 'table' or #pair ~= 2 then
      blame.raise(('pad: an amount is a number or {before, behind}, got %s'):format(
        blame.show(pair)), 'EARG', 'pad')
    end
    low[i] = whole(pair[1], 'pad', 'an amount')
    high[i] = whole(pair[2], 'pad', 'an amount')
  end
  return low, high
end

docs.pad = "pad({{before, behind}, ...}, {mode = 'constant', value = 0}): more elements around the "
  .. 'last axes; negative amounts cut'
--- More elements before and behind those of the last axes; negative amounts cut.
---@param x Tensor
---@param list table {before, behind} or one number for both, for each of the last axes
---@param opts table|nil {mode = 'constant', value = 0}; 'reflect' goes back from the last element,
---  'edge' repeats it, 'wrap' begins again
---@return Tensor
-- >> ridge.arange(1, 3):pad({ { 1, 2 } }, { mode = 'reflect' })
-- >> ridge.ones(2, 2):pad { 1, { 0, -1 } }
function methods.pad(x, list, opts, extra)
  if extra ~= nil then surplus('pad', 'list, opts', extra) end
  need(x, 'pad')
  opts = options.check(PAD, opts, 'pad')
  local low, high = amounts(x, list)
  return pad({ x }, { low = low, high = high, mode = MODES[opts.mode], value = opts.value })
end

-- One axis by a mode.
local function padded(x, axis, before, behind, mode)
  local low, high = {}, {}
  for i = 1, x.ndim do low[i], high[i] = 0, 0 end
  low[axis], high[axis] = before, behind
  return pad({ x }, { low = low, high = high, mode = mode })
end

-- Numbers one by one, or as a list; none of them is missing.
local function listed(what, ...)
  if type((...)) == 'table' then return options.list((...), what) end
  local list = { ... }
  for i = 1, select('#', ...) do
    if list[i] == nil then
      blame.raise(('%s: number %d of its arguments is nil'):format(what, i), 'EARG', what)
    end
  end
  return list
end

docs.roll = 'roll(by, axis): elements moved along an axis, and round its end'
--- Elements moved along an axis; what leaves it comes in at the other end.
---@param x Tensor
---@param by number positions, negative towards the first
---@param axis number
---@return Tensor
-- >> ridge.arange(1, 5):roll(2, 1)
function methods.roll(x, by, axis, extra)
  if extra ~= nil then surplus('roll', 'by, axis', extra) end
  need(x, 'roll')
  axis = axis_of(x, axis, 'roll')
  local n = x:size(axis)
  by = n > 0 and whole(by, 'roll', 'by') % n or 0
  return padded(x, axis, by, -by, MODES.wrap)
end

docs.tile = 'tile(counts...): repeated along its axes'
--- The tensor repeated so often along each axis; counts for more axes than it has put axes before.
---@param x Tensor
---@param ... number a count for each axis
---@return Tensor
-- >> ridge.arange(1, 2):tile(2, 3)
function methods.tile(x, ...)
  need(x, 'tile')
  local counts = listed('tile', ...)
  for i, n in ipairs(counts) do whole(n, 'tile', 'count ' .. i, 0) end
  local shape = x:size()
  while #counts < #shape do table.insert(counts, 1, 1) end
  while #shape < #counts do table.insert(shape, 1, 1) end
  if #shape > 8 then blame.raise('tile: at most 8 axes are possible', 'ESHAPE', 'tile') end
  local low, high = {}, {}
  for i, n in ipairs(shape) do
    low[i] = 0
    high[i] = whole((counts[i] - 1) * n, 'tile', 'a size')
  end
  return pad({ x:reshape(shape) }, { low = low, high = high, mode = MODES.wrap })
end

docs.flip = 'flip(axes...): backwards along these axes'
--- Backwards along some axes.
---@param x Tensor
---@param ... number axes
---@return Tensor
-- >> ridge.arange(1, 4):flip(1)
function methods.flip(x, ...)
  need(x, 'flip')
  local axes = listed('flip', ...)
  local y = x
  for _, axis in ipairs(axes) do
    axis = axis_of(x, axis, 'flip')
    local last = make.arange(y:size(axis) - 1, 0, -1, { dtype = 'i64', device = x.device })
    y = y:index_select(axis, last)
  end
  return y
end

-- -- Blocks of pixels -----------------------------------------------------------------------

local BLOCKS = { order = { 'string', default = 'dcr', choices = { 'dcr', 'crd' },
  doc = "which channels are a block's: 'dcr' those a whole share apart, 'crd' neighbours "
    .. '(pixel shuffle)' } }

local function image(x, what, size)
  need(x, what)
  whole(size, what, 'the size of a block', 1)
  if x.ndim ~= 4 then
    blame.raise(('%s: x is %s, wanted [n x c x h x w]'):format(what, x:describe()), 'ESHAPE', what)
  end
  return unpack(x:size())
end

docs.depth_to_space = "depth_to_space(size, {order = 'dcr'}): channels as blocks of pixels"
--- Channels as blocks of pixels: [n x c x h x w] becomes [n x c/size^2 x h size x w size].
---@param x Tensor [n x c x h x w]
---@param size number of a block's sides
---@param opts table|nil {order = 'dcr'}: or 'crd', as pixel shuffle has it
---@return Tensor
-- >> ridge.arange(1, 4):reshape(1, 4, 1, 1):depth_to_space(2)
function methods.depth_to_space(x, size, opts, extra)
  if extra ~= nil then surplus('depth_to_space', 'size, opts', extra) end
  local n, c, h, w = image(x, 'depth_to_space', size)
  opts = options.check(BLOCKS, opts, 'depth_to_space')
  if c % (size * size) ~= 0 then
    blame.raise(('depth_to_space: %d channels are no blocks of %d x %d'):format(c, size, size),
      'ESHAPE', 'depth_to_space')
  end
  local share = c / (size * size)
  local y
  if opts.order == 'dcr' then
    y = x:reshape(n, size, size, share, h, w):permute(1, 4, 5, 2, 6, 3)
  else
    y = x:reshape(n, share, size, size, h, w):permute(1, 2, 5, 3, 6, 4)
  end
  return y:reshape(n, share, h * size, w * size)
end

docs.space_to_depth = 'space_to_depth(size): blocks of pixels as channels'
--- Blocks of pixels as channels: [n x c x h x w] becomes [n x c size^2 x h/size x w/size].
---@param x Tensor [n x c x h x w]
---@param size number of a block's sides
---@return Tensor
-- >> ridge.arange(1, 4):reshape(1, 1, 2, 2):space_to_depth(2)
function methods.space_to_depth(x, size, extra)
  if extra ~= nil then surplus('space_to_depth', 'size', extra) end
  local n, c, h, w = image(x, 'space_to_depth', size)
  if h % size ~= 0 or w % size ~= 0 then
    blame.raise(('space_to_depth: images of %d x %d are no blocks of %d x %d'):format(h, w, size,
      size), 'ESHAPE', 'space_to_depth')
  end
  return x:reshape(n, c, h / size, size, w / size, size):permute(1, 4, 6, 2, 3, 5)
    :reshape(n, c * size * size, h / size, w / size)
end

return M
