-- SPDX-License-Identifier: MIT
--- Weights most of which are 0, kept as what is not, and products with them.

local blame = require 'ridge.blame'
local make = require 'ridge.tensor.make'
local ops = require 'ridge.tensor.ops'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local dtype = require 'ridge.tensor.dtype'
local run = require 'ridge.tensor.run'
local schema = require 'ridge.tensor.schema'

local M = {}

local need = ref.need
local sparse_linear, n_of_m_linear = run.of 'sparse_linear', run.of 'n_of_m_linear'

local WINDOW = 16 -- inputs that entries of n of m are looked up in, outputs that lie together

local PACK = {
  block = { 'integer', default = 1, choices = { 1, 16 }, doc = 'outputs that are kept together' },
  pattern = { 'string',
    doc = "'2:4': at most 2 of each 4 inputs are not 0; of each 2, 4, 8 or 16" },
}

-- -- n of m -------------------------------------------------------------------------------------

-- Zeros behind what is there, along one axis.
local function padded(w, axis, more)
  if more == 0 then return w end
  local sizes = w:size()
  sizes[axis] = more
  sizes[#sizes + 1] = { dtype = w.dtype, device = w.device }
  return ops.concat({ w, make.zeros(unpack(sizes)) }, axis)
end

-- The numbers n and m of a pattern that has a kernel, or nil.
local function numbers_of(pattern)
  local n, m = pattern:match '^(%d+):(%d+)$'
  n, m = tonumber(n), tonumber(m)
  if n and n >= 1 and n < m and m <= WINDOW and WINDOW % m == 0 then return n, m end
end

--- Whether a pattern has a kernel of its own.
---@param pattern string
---@return boolean
function M.has_kernel(pattern) return numbers_of(pattern) ~= nil end

--- The pattern n:m with a kernel that a weight has: of those for 2, 4, 8 and 16 the one with the
--- fewest entries, and nil where that is more than half of the inputs.
---@param w Tensor [n_out x n_in]
---@return string|nil
function M.pattern_of(w)
  local best, most
  local there = padded(w:ne(0):to 'f32', 2, -w.shape[2] % WINDOW)
  for _, m in ipairs { 2, 4, 8, 16 } do
    local n = there.count > 0 and there:reshape(-1, m):sum(2):max():item() or m
    n = math.max(n, 1)
    if n / m <= (best or 0.5) and (not best or n / m < best) then
      best, most = n / m, ('%d:%d'):format(n, m)
    end
  end
  return most
end

-- A weight as core/op/n_of_m_linear.h says: the n of each m that are largest, at their places.
local function n_of_m(w, pattern)
  local n, m = numbers_of(pattern)
  if not n then
    blame.raise(("sparse: option pattern is %s; n:m has n below m, and m is 2, 4, 8 or 16"):format(
      blame.show(pattern)), 'EARG', 'sparse')
  end
  if w.dtype ~= 'bf16' then w = w:to 'f32' end
  local rows, k = w.shape[1], w.shape[2]
  w = padded(padded(w, 1, -rows % WINDOW), 2, -k % WINDOW)
  local tiles, windows, groups = w.shape[1] / WINDOW, w.shape[2] / WINDOW, WINDOW / m
  local parts = w:reshape(w.shape[1], windows * groups, m)
  local there = parts:ne(0):to 'f32'
  if w.count > 0 and there:sum(3):max():item() > n then
    blame.raise(('sparse: more than %d of %d inputs that follow each other are not 0'):format(n, m),
      'EARG', 'sparse')
  end
  -- those that are there first, in their order, then others, which are 0
  local order = there * m - make.arange(0, m - 1, { dtype = 'f32', device = w.device }) / (2 * m)
  local _, at = order:topk(n, 3)
  local function entries(x) -- [tiles x entries x 16]
    return x:reshape(tiles, WINDOW, windows * groups * n):transpose(2, 3):contiguous()
  end
  local values = entries(parts:gather(3, at))
  local first = make.arange(0, groups - 1, { dtype = 'i32', device = w.device }) * m
  local index = entries(at:to('i32'):reshape(w.shape[1], windows, groups, n)
    + first:reshape(1, 1, groups, 1))
  index = padded(index, 2, index.shape[2] % 2)
  index = index:reshape(tiles, index.shape[2] / 2, 2, WINDOW)
  local both = index:select(3, 1) + index:select(3, 2) * 16
  return { index = both:to('u8'):contiguous(), values = values, rows = rows, columns = k }
end

-- -- Weights ------------------------------------------------------------------------------------

--- A weight as what is not 0 in it, in compressed rows; or in blocks of 16 outputs, each kept where
--- one of its weights is not 0; or, with a pattern, n of each m inputs of each output.
---@param w Tensor [n_out x n_in], f32; with block = 16 n_out in sixteens; with a pattern also bf16
---@param opts table|nil {block = 1}, or {pattern = '2:4'}
---@return table w {offset = i32, column = i32, values = f32 [n] or [n x 16]}; of a pattern {index =
---  u8 [n_out / 16 x entries / 2 x 16], values = f32 or bf16 [n_out / 16 x entries x 16], rows =
---  n_out, columns = n_in}, where sixteen inputs have as many entries as sixteen others
-- >> ridge.sparse(ridge.tensor { { 0, 2, 0 }, { 1, 0, 3 } }).column:tolist()
function M.sparse(w, opts)
  need(w, 'sparse')
  opts = options.check(PACK, opts, 'sparse')
  local block = opts.block
  if w.device ~= 'cpu' then
    blame.raise(('sparse: w is on %s, which has no kernel for sparse weights: give w:to \'cpu\'')
      :format(w.device), 'ENOSUP', 'sparse')
  end
  if opts.pattern and w.ndim == 2 and block == 1 then return n_of_m(w, opts.pattern) end
  if opts.pattern and block ~= 1 then
    blame.raise('sparse: a weight is kept by option block or by option pattern, not both', 'EARG',
      'sparse')
  end
  if w.ndim ~= 2 or w.shape[1] % block ~= 0 then
    blame.raise(('sparse: w is %s, wanted two axes, the first in whole blocks of %d'):format(
      w:describe(), block), 'ESHAPE', 'sparse')
  end
  local rows, k = w.shape[1] / block, w.shape[2]
  local parts = w:to('f32'):reshape(rows, block, k):transpose(2, 3)
  local there = parts:ne(0):any(3)
  local count = there:to('i32'):sum(2):reshape(rows)
  local offset = make.zeros(rows + 1, { dtype = 'i32', device = w.device })
  if rows > 0 then offset:narrow(1, 2, rows):copy_(count:cumsum():to 'i32') end
  local place = there:nonzero()
  local column = place:narrow(2, 2, 1):reshape(place.shape[1]):to 'i32'
  local values = parts:gather_nd(place)
  if block == 1 then values = values:reshape(values.shape[1]) end
  return { offset = offset, column = column, values = values:contiguous() }
end

local SPEC = {
  bias = { 'any', doc = 'one number for each output' },
  activation = { 'string', default = 'none', choices = schema.ACT_NAMES,
    doc = 'applied to the result' },
  dtype = { 'string', default = 'f32', choices = { 'f32', 'bf16', 'f16' }, doc = 'of the result' },
}

--- act(x W' + bias) for a weight as ridge.sparse keeps it.  Columns that lie outside x are an
--- error.  Sums are in f32.  No gradient goes through it, and GPUs have none of it yet.
---@param x Tensor [... x n_in] of f32, bf16 or f16
---@param w table {offset = i32 [rows + 1], column = i32 [n], values = f32 [n] or [n x 16]}; columns
---  count from 0. Of n of m {index = u8, values =, rows =,
---  columns =}
---@param opts table|nil {bias = Tensor, activation = 'none', dtype = 'f32'}
---@return Tensor [... x rows], or [... x 16 rows] of blocks
-- >> w = ridge.sparse(ridge.tensor { { 0, 2, 0 }, { 1, 0, 3 } })
-- >> ridge.sparse_linear(ridge.ones(1, 3), w)
function M.sparse_linear(x, w, opts)
  need(x, 'sparse_linear')
  if type(w) ~= 'table' then
    blame.raise(('sparse_linear: a weight is {offset =, column =, values =}, got %s'):format(
      blame.show(w)), 'EARG', 'sparse_linear')
  end
  opts = options.check(SPEC, opts, 'sparse_linear')
  if w.index ~= nil then
    for _, name in ipairs { 'rows', 'columns' } do
      local v = w[name]
      if type(v) ~= 'number' or v % 1 ~= 0 or v < 0 or v > 2 ^ 53 then
        blame.raise(('sparse_linear: %s of a weight is a whole number, got %s'):format(name,
          blame.show(v)), 'EARG', 'sparse_linear')
      end
    end
    if x.ndim > 0 and x:size(-1) ~= w.columns then
      blame.raise(('sparse_linear: x is %s, and its last axis is to have %d elements'):format(
        x:describe(), w.columns), 'ESHAPE', 'sparse_linear')
    end
    return n_of_m_linear({ x, need(w.index, 'sparse_linear'), need(w.values, 'sparse_linear'),
      opts.bias }, { act = schema.ACT[opts.activation], dtype = dtype.code(opts.dtype,
      'sparse_linear'), rows = w.rows })
  end
  return sparse_linear({ x, need(w.offset, 'sparse_linear'), need(w.column, 'sparse_linear'),
    need(w.values, 'sparse_linear'), opts.bias }, { act = schema.ACT[opts.activation],
    dtype = dtype.code(opts.dtype, 'sparse_linear') })
end

-- -- Back ---------------------------------------------------------------------------------------

-- The places of n of m, [outputs x entries], of sixteens of outputs.
local function places_of(index, entries, each)
  local both = index:to 'f32'
  local high = (both / 16):floor()
  local tiles, pairs_of = index.shape[1], index.shape[2]
  local low = (both - high * 16):reshape(tiles, pairs_of, 1, WINDOW)
  local all = ops.concat({ low, high:reshape(tiles, pairs_of, 1, WINDOW) }, 3)
    :reshape(tiles, 2 * pairs_of, WINDOW):narrow(2, 1, entries):transpose(2, 3)
  local first = (make.arange(0, entries - 1, { device = index.device }) / each):floor() * WINDOW
  return (all + first):reshape(tiles * WINDOW, entries):to 'i64'
end

local function dense_n_of_m(w)
  local values = w.values:to 'f32'
  local tiles, entries = values.shape[1], values.shape[2]
  local windows = math.ceil(w.columns / WINDOW)
  local out = make.zeros(tiles * WINDOW, windows * WINDOW, { device = values.device })
  if out.count > 0 then
    out = out:scatter(2, places_of(w.index, entries, entries / windows),
      values:transpose(2, 3):reshape(tiles * WINDOW, entries), { reduce = 'add' })
  end
  return out:narrow(1, 1, w.rows):narrow(2, 1, w.columns):contiguous()
end

local function dense_rows(w)
  local n, rows = w.column.shape[1], w.offset.shape[1] - 1
  local block = w.values.ndim == 2 and w.values.shape[2] or 1
  local on = { device = w.values.device }
  local out = make.zeros(rows * w.columns, block, on)
  if n > 0 and out.count > 0 then
    -- an entry's row is how many rows begin at it or before, the first not counted
    local begins = make.zeros(n + 1, on)
    if rows > 1 then
      begins = begins:scatter(1, w.offset:narrow(1, 2, rows - 1):to 'i64',
        make.ones(rows - 1, on), { reduce = 'add' })
    end
    local at = begins:narrow(1, 1, n):to('i64'):cumsum() * w.columns + w.column:to 'i64'
    out = out:scatter(1, at:reshape(n, 1):expand(n, block):contiguous(),
      w.values:reshape(n, block), { reduce = 'add' })
  end
  return out:reshape(rows, w.columns, block):transpose(2, 3)
    :reshape(rows * block, w.columns):contiguous()
end

--- The matrix that a weight is kept of, which is checked as a product checks it; of a weight on a
--- GPU on the CPU, and moved there.
---@param w table as ridge.sparse_linear takes it, with columns in each form
---@return Tensor f32 [n_out x n_in]; in blocks and in n of m with their zeros
function M.dense(w)
  local device, here = w.values.device, { rows = w.rows, columns = w.columns }
  for _, name in ipairs { 'index', 'offset', 'column', 'values' } do
    here[name] = w[name] and w[name]:to 'cpu'
  end
  M.sparse_linear(make.zeros(1, w.columns, { device = 'cpu' }), here)
  return (here.index and dense_n_of_m(here) or dense_rows(here)):to(device)
end

--- Whether in each row of a matrix at most n of each m that follow each other are not 0.
---@param w Tensor [rows x columns]
---@param n integer
---@param m integer
---@return boolean
function M.keeps(w, n, m)
  if w.count == 0 then return true end
  local there = padded(w:ne(0):to 'f32', 2, -w.shape[2] % m)
  return there:reshape(-1, m):sum(2):max():item() <= n
end

--- Why a weight in n of m is not one of a pattern, or nil.
---@param w table as ridge.sparse_linear takes it
---@param pattern string|nil
---@return string|nil
function M.why_not(w, pattern)
  local n, m = numbers_of(pattern or '')
  if not n then return ('there is no pattern %s'):format(blame.show(pattern)) end
  local shape, entries = w.values.shape, math.ceil(w.columns / WINDOW) * WINDOW * n / m
  if w.values.ndim ~= 3 or shape[2] ~= entries then
    return ('%s is not of %d entries for each of 16 outputs'):format(w.values:describe(), entries)
  end
  local made, matrix = pcall(M.dense, w)
  if not made then return tostring(matrix.message or matrix) end
  if not M.keeps(matrix, n, m) then
    return ('more than %d of %d inputs that follow each other are not 0'):format(n, m)
  end
end

return M
