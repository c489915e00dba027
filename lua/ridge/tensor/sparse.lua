-- SPDX-License-Identifier: MIT
--- Weights most of which are 0, kept as what is not, and products with them.

local blame = require 'ridge.blame'
local make = require 'ridge.tensor.make'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local dtype = require 'ridge.tensor.dtype'
local run = require 'ridge.tensor.run'
local schema = require 'ridge.tensor.schema'

local M = {}

local need = ref.need
local sparse_linear = run.of 'sparse_linear'

local PACK = { block = { 'integer', default = 1, choices = { 1, 16 },
  doc = 'outputs that are kept together' } }

--- A weight as what is not 0 in it, in compressed rows; or in blocks of 16 outputs, each kept where
--- one of its weights is not 0.
---@param w Tensor [n_out x n_in], f32; with block = 16 n_out in sixteens
---@param opts table|nil {block = 1}
---@return table {offset = i32, column = i32, values = f32 [n] or [n x 16]}
-- >> ridge.sparse(ridge.tensor { { 0, 2, 0 }, { 1, 0, 3 } }).column:tolist()
function M.sparse(w, opts)
  need(w, 'sparse')
  opts = options.check(PACK, opts, 'sparse')
  local block = opts.block
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
---  count from 0
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
  return sparse_linear({ x, need(w.offset, 'sparse_linear'), need(w.column, 'sparse_linear'),
    need(w.values, 'sparse_linear'), opts.bias }, { act = schema.ACT[opts.activation],
    dtype = dtype.code(opts.dtype, 'sparse_linear') })
end

return M
