-- SPDX-License-Identifier: MIT
--- Elements by their positions, as methods: gathering and scattering along an axis, or by all axes
--- at once.  Positions in tensors count from 0; one that is outside is an error.

local blame = require 'ridge.blame'
local make = require 'ridge.tensor.make'
local method = require 'ridge.tensor.method'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local run = require 'ridge.tensor.run'
local view = require 'ridge.tensor.view'

local M = { methods = {}, docs = {} }

local methods, docs = M.methods, M.docs
local surplus = require('ridge.tensor.elementwise').surplus
local need = ref.need
local gather, scatter = run.of 'gather', run.of 'scatter'

--- An axis of x from 1 on.
---@param x Tensor
---@param axis number negative from the end
---@param what string
---@return number
function M.axis(x, axis, what)
  local at = method.axis(axis, what)
  local ndim = x._t._ndim
  if at < -ndim or at >= ndim then
    blame.raise(('%s: there is no axis %s in %s'):format(what, blame.show(axis), x:describe()),
      'EAXIS', what)
  end
  return at < 0 and at + ndim + 1 or at + 1
end

docs.gather = 'gather(axis, index): y[i, j] = x[index[i, j], j] for axis 1, positions from 0'
--- An element for each position along an axis: where the index is [i x j] and the axis 1, y[i, j] =
--- x[index[i, j], j].
---@param x Tensor
---@param axis number
---@param index Tensor whole numbers from 0; as many axes as x, none but `axis` longer than x's
---@return Tensor of the index's shape
-- >> index = ridge.tensor({ { 2, 0 }, { 1, 1 } }, { dtype = 'i64' })
-- >> ridge.arange(1, 6):reshape(2, 3):gather(2, index)
function methods.gather(x, axis, index, extra)
  if extra ~= nil then surplus('gather', 'axis, index', extra) end
  need(x, 'gather')
  need(index, 'gather')
  return gather({ x, index }, { axis = M.axis(x, axis, 'gather') - 1 })
end

local SCATTER = {
  reduce = { 'string', default = 'none', choices = { 'none', 'add', 'mul', 'max', 'min' },
    doc = "what is done where an element comes: 'none' puts it there, the last of several stays" },
}
local CODES = { none = 0, add = 1, mul = 2, max = 3, min = 4 }

docs.scatter = "scatter(axis, index, src, {reduce = 'none'}): x with y[index[i, j], j] = src[i, j] "
  .. 'for axis 1, positions from 0'
--- A copy of x with the elements of src at their positions along an axis: the inverse of gather.
--- With reduce they are added ('add'), multiplied ('mul'), or the largest ('max') or smallest stays
--- ('min', nan wins); of bool, sums are "any" and products "all".
---@param x Tensor
---@param axis number
---@param index Tensor whole numbers from 0; as many axes as x, none but `axis` longer than x's
---@param src Tensor|number of x's type; as long as the index or longer
---@param opts table|nil {reduce = 'none'}
---@return Tensor of x's shape
-- >> ridge.zeros(2, 3):scatter(2, ridge.tensor({ { 2 }, { 0 } }, { dtype = 'i64' }), 7)
function methods.scatter(x, axis, index, src, opts, extra)
  if extra ~= nil then surplus('scatter', 'axis, index, src, opts', extra) end
  need(x, 'scatter')
  need(index, 'scatter')
  opts = options.check(SCATTER, opts, 'scatter')
  if type(src) == 'number' then
    src = make.full(src, index:size(), { dtype = x.dtype, device = x.device })
  end
  need(src, 'scatter')
  if src.ndim == index.ndim then -- of a longer one the first elements are meant
    for i = 1, src.ndim do
      local n = index:size(i)
      if src:size(i) > n then src = view.methods.narrow(src, i, 1, n) end
    end
  end
  return scatter({ x, index, src },
    { axis = M.axis(x, axis, 'scatter') - 1, reduce = CODES[opts.reduce] })
end

docs.index_select = 'index_select(axis, index): the parts of an axis with these numbers, from 0'
--- The parts of an axis with these numbers, as take does with rows; an index of several axes puts
--- them in the axis's place.
---@param x Tensor
---@param axis number
---@param index Tensor whole numbers from 0
---@return Tensor
-- >> ridge.arange(1, 6):reshape(2, 3):index_select(2, ridge.tensor({ 2, 0 }, { dtype = 'i64' }))
function methods.index_select(x, axis, index, extra)
  if extra ~= nil then surplus('index_select', 'axis, index', extra) end
  need(x, 'index_select')
  need(index, 'index_select')
  axis = M.axis(x, axis, 'index_select')
  if axis == 1 then return x:take(index) end
  local front, back = { axis }, {}
  for i = 1, x.ndim do
    if i ~= axis then front[#front + 1] = i end
  end
  local y, n = x:permute(front):take(index), index.ndim
  for i = 1, axis - 1 do back[i] = n + i end
  for i = 1, n do back[#back + 1] = i end
  for i = axis, x.ndim - 1 do back[#back + 1] = n + i end
  return #back > 0 and y:permute(back) or y
end

-- -- By several axes ------------------------------------------------------------------------

-- The numbers of rows of x, its first k axes joined, from index [... x k].  A tuple with a position
-- outside its axis is -1, which is none of a row.
local function flat(index, sizes, first, k)
  index = index:to 'i64'
  local number, outside
  for i = 1, k do
    local at, size = index:select(-1, i), sizes[first + i - 1]
    local wrong = at:lt(0):to('i64') + at:ge(size):to 'i64'
    number = number and number * size + at or at
    outside = outside and outside + wrong or wrong
  end
  local inside = outside:eq(0):to 'i64'
  return number * inside + inside - 1
end

local function product(list, first, last)
  local n = 1
  for i = first, last do n = n * list[i] end
  return n
end

local function part(list, first, last, more)
  local taken = more or {}
  for i = first, last do taken[#taken + 1] = list[i] end
  return taken
end

local POSITIONS = { i64 = true, i32 = true, i8 = true, u8 = true }

-- How many axes of x the last axis of an index speaks of.
local function depth(x, index, what, batch)
  if not POSITIONS[index.dtype] then
    blame.raise(('%s: index is %s, wanted whole numbers (i64, i32, i8, u8)'):format(what,
      index:describe()), 'EDTYPE', what)
  end
  local k = index.ndim > 0 and index:size(-1) or 0
  if index.ndim == 0 or index.ndim < batch or k < 1 or batch + k > x.ndim then
    blame.raise(('%s: the last axis of the index %s has a position for each of the first axes of '
      .. '%s, one at least'):format(what, index:describe(), x:describe()), 'ESHAPE', what)
  end
  return k
end

local ND = { batch = { 'integer', default = 0, min = 0, max = 7,
  doc = 'so many first axes of x and of the index go together' } }

docs.gather_nd = 'gather_nd(index, {batch = 0}): the parts of x at positions of several axes'
--- The parts of x at positions of several axes: y[i] = x[index[i, 1], index[i, 2], ...].
---@param x Tensor
---@param index Tensor [... x k], whole numbers from 0
---@param opts table|nil {batch = 0}: so many first axes of x and of the index go together
---@return Tensor [... x the axes of x behind the first k]
-- >> ridge.arange(1, 6):reshape(2, 3):gather_nd(ridge.tensor({ { 1, 2 } }, { dtype = 'i64' }))
function methods.gather_nd(x, index, opts, extra)
  if extra ~= nil then surplus('gather_nd', 'index, opts', extra) end
  need(x, 'gather_nd')
  need(index, 'gather_nd')
  local batch = options.check(ND, opts, 'gather_nd').batch
  local k = depth(x, index, 'gather_nd', batch + 1 > index.ndim and 8 or batch)
  local xs, is = x:size(), index:size()
  for i = 1, batch do
    if xs[i] ~= is[i] then
      blame.raise(('gather_nd: axis %d of %s and of the index %s go together'):format(i,
        x:describe(), index:describe()), 'ESHAPE', 'gather_nd')
    end
  end
  local rows = product(xs, batch + 1, batch + k)
  local number = flat(index, xs, batch + 1, k) -- [batch ..., ...]
  local outer = product(xs, 1, batch)
  if batch > 0 then
    local base = make.arange(0, outer - 1, 1,
      { dtype = 'i64', device = x.device }):reshape(outer, 1)
    local inner = number:reshape(outer, product(is, batch + 1, #is - 1))
    number = (inner + base * rows) * inner:ge(0):to 'i64' - inner:lt(0):to 'i64'
  end
  local shape = part(xs, batch + k + 1, #xs, part(is, 1, #is - 1))
  local table_ = x:reshape(part(xs, batch + k + 1, #xs, { outer * rows }))
  return blame.within('gather_nd', function()
    return table_:take(number:reshape(-1)):reshape(shape)
  end)
end

docs.scatter_nd = "scatter_nd(index, src, {reduce = 'none'}): x with the parts of src at positions "
  .. 'of several axes'
--- A copy of x with the parts of src at positions of several axes: y[index[i, 1], index[i, 2], ...]
--- = src[i]; reduce as for scatter.
---@param x Tensor
---@param index Tensor [... x k], whole numbers from 0
---@param src Tensor [... x the axes of x behind the first k], of x's type
---@param opts table|nil {reduce = 'none'}
---@return Tensor of x's shape
-- >> ridge.zeros(2, 3):scatter_nd(ridge.tensor({ { 1, 2 } }, { dtype = 'i64' }), ridge.ones(1))
function methods.scatter_nd(x, index, src, opts, extra)
  if extra ~= nil then surplus('scatter_nd', 'index, src, opts', extra) end
  need(x, 'scatter_nd')
  need(index, 'scatter_nd')
  need(src, 'scatter_nd')
  opts = options.check(SCATTER, opts, 'scatter_nd')
  local k = depth(x, index, 'scatter_nd', 0)
  local xs, is = x:size(), index:size()
  local wanted = part(xs, k + 1, #xs, part(is, 1, #is - 1))
  local fits = #wanted == src.ndim
  for i = 1, #wanted do fits = fits and wanted[i] == src:size(i) end
  if not fits then
    blame.raise(('scatter_nd: src %s has not a part of %s for each place of the index %s'):format(
      src:describe(), x:describe(), index:describe()), 'ESHAPE', 'scatter_nd')
  end
  local rows, row, n = product(xs, 1, k), product(xs, k + 1, #xs), product(is, 1, #is - 1)
  local number = flat(index, xs, 1, k):reshape(n, 1):expand(n, row)
  return scatter({ x:reshape(rows, row), number, src:reshape(n, row) },
    { axis = 0, reduce = CODES[opts.reduce] }):reshape(xs)
end

return M
