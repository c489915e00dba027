-- SPDX-License-Identifier: MIT
--- Where the zeros of a net are, and what they would save in which form.

local columns = require 'ridge.show.columns'
local guard = require 'ridge.guard'
local in_no_grad = require('ridge.tensor.grad').no_grad
local mask = require 'ridge.prune.mask'
local nets = require 'ridge.quant.nets'
local notes = require 'ridge.prune.notes'
local parameter = require 'ridge.nn.parameter'
local pattern = require 'ridge.prune.pattern'
local SparseLinear = require('ridge.prune.sparse_layer').SparseLinear
local sparse = require 'ridge.tensor.sparse'

local M = {}

local WHAT = 'prune.analyze'
local INDEX, VALUE = 4, 4 -- bytes of a column or an offset, and of a value, in ridge.sparse

local Analysis = {}
Analysis.__index = Analysis

local function count(flag) return flag:to('i64'):sum():item() end

-- Bytes of a matrix in n of m, or nil: of sixteens of outputs and of inputs, with a half byte for
-- the place of each number.
local function n_of_m_bytes(w, name)
  if not name then return nil end
  local n, m = name:match '^(%d+):(%d+)$'
  local tiles, entries = math.ceil(w:size(1) / 16), math.ceil(w:size(2) / 16) * 16 * n / m
  return tiles * 16 * (entries * (w.dtype == 'bf16' and 2 or VALUE) + math.ceil(entries / 2))
end

-- Bytes of a matrix as it is, as what is not 0 in it, in blocks of 16 outputs, and in n of m.
local function bytes_of(w, zeros, blocks, name)
  local block_rows = math.ceil(w:size(1) / 16)
  return { kept = w.bytes, dense = w.bytes,
    sparse = (w.count - zeros) * (VALUE + INDEX) + (w:size(1) + 1) * INDEX,
    block = (blocks.n - blocks.zero) * (16 * VALUE + INDEX) + (block_rows + 1) * INDEX,
    n_of_m = n_of_m_bytes(w, name) }
end

local function look(w)
  w = w:reshape(w:size(1), -1)
  local zeros, is_zero = count(w:eq(0)), w:eq(0):to 'f32'
  local scores = pattern.score({ kind = 'block' }, w:ne(0):to 'f32')
  local blocks = { n = scores.count, zero = count(scores:eq(0)) }
  local name = w.count > 0 and sparse.pattern_of(w) or nil
  return { weights = w.count, zeros = zeros, share = zeros / math.max(w.count, 1),
    rows = w:size(1), zero_rows = count(is_zero:mean(2):eq(1)),
    zero_columns = count(is_zero:mean(1):eq(1)), blocks = blocks.n, zero_blocks = blocks.zero,
    two_of_four = w.count > 0 and w:size(2) % 4 == 0 and sparse.keeps(w, 2, 4), pattern = name,
    bytes = bytes_of(w, zeros, blocks, name) }
end

-- The matrices of a layer, under the names of its parameters.
local function matrices(module)
  local list = {}
  for _, p in ipairs(module.params) do
    if (p.trainable or p.frozen) and p.tensor.ndim >= 2 then list[#list + 1] = p.name end
  end
  return list
end

-- Bytes of the tensors that a sparse layer keeps its weights in.
local function kept_bytes(layer)
  local bytes = 0
  for _, name in ipairs { 'values', 'index', 'offset', 'column' } do
    local held = layer._tensors[name]
    bytes = bytes + (held and held.bytes or 0)
  end
  return bytes
end

-- A layer of prune.compact: the matrix that it is kept of, and the bytes that it is kept in.
local function sparse_row(layer)
  local row = look(layer.module:effective_weight():to(layer.module.values.dtype))
  row.layer, row.class, row.masked = layer.name, layer.class, false
  row.kept, row.bytes.kept = layer.module.pattern or layer.module.format, kept_bytes(layer.module)
  return row
end

local function rows_of(net)
  local found, about, seen = {}, notes.of(net), {}
  for _, layer in ipairs(nets.layers(net)) do
    if getmetatable(layer.module) == SparseLinear then found[#found + 1] = sparse_row(layer) end
    for i, name in ipairs(matrices(layer.module)) do
      local held = parameter.entry(layer.module, name).tensor
      if not seen[held] then
        seen[held] = true
        local row = look((layer.module[name] or held):detach())
        row.layer = layer.name .. (i > 1 and ' ' .. name or '')
        row.class = layer.class
        row.masked = mask.of(layer.module, name) ~= nil
          or parameter.entry(layer.module, name .. '_mask') ~= nil -- below a rounding
        row.why = about.why[layer.name]
        found[#found + 1] = row
      end
    end
  end
  return found
end

--- Zeros of each layer with weights: how many, whether whole rows, columns or blocks of 16 outputs
--- are 0, whether a mask keeps them 0, and bytes as the layer is kept, dense, in compressed rows,
--- in blocks, and in n:m where it has such a pattern: numbers with their places, no biases. Of a
--- net that ridge.prune made it says why layers were left.
---@param net table module, in either mode
---@return table a layers {layer, class, weights, zeros, share, rows, zero_rows, zero_columns,
---  blocks, zero_blocks, two_of_four, pattern (n:m), masked, kept (how a layer of prune.compact
---  is), bytes (kept, dense, sparse, block, n_of_m), why}, weights, zeros, share, masked (how many
---  layers); print()
-- >> local net = ridge.nn.Sequential(ridge.nn.Linear(8, 4), ridge.nn.ReLU(), ridge.nn.Linear(4, 2))
-- >> return ridge.prune.analyze(ridge.prune.magnitude(net, { sparsity = 0.5 }))
function M.analyze(net)
  nets.need(net, WHAT, true)
  local a = { layers = in_no_grad(rows_of, net), weights = 0, zeros = 0, masked = 0,
    pattern = notes.of(net).pattern }
  for _, row in ipairs(a.layers) do
    a.weights, a.zeros = a.weights + row.weights, a.zeros + row.zeros
    a.masked = a.masked + (row.masked and 1 or 0)
  end
  a.share = a.zeros / math.max(a.weights, 1)
  return setmetatable(a, Analysis)
end

local function percent(part, all) return ('%.1f'):format(100 * part / math.max(all, 1)) end

function Analysis:__tostring()
  local cells = {}
  for i, r in ipairs(self.layers) do
    cells[i] = { r.layer, r.class, tostring(r.weights), percent(r.zeros, r.weights),
      percent(r.zero_rows, r.rows), percent(r.zero_blocks, r.blocks), r.masked and 'yes' or 'no',
      ('%.4f'):format(r.bytes.kept / 2 ^ 20), ('%.4f'):format(r.bytes.sparse / 2 ^ 20),
      ('%.4f'):format(r.bytes.block / 2 ^ 20),
      r.pattern and ('%.4f (%s)'):format(r.bytes.n_of_m / 2 ^ 20, r.pattern) or '' }
  end
  local lines = { ('%d of %d weights are 0: %.2f %%'):format(self.zeros, self.weights,
    100 * self.share) }
  if #cells > 0 then
    lines[2] = columns.text({ 'layer', 'class', 'weights', 'zeros %', 'rows %', 'blocks %',
      'masked', 'MB', 'MB in rows', 'MB in blocks', 'MB in n:m' }, cells)
  end
  for _, r in ipairs(self.layers) do
    if r.why then lines[#lines + 1] = ('%s is left: %s'):format(r.layer, r.why) end
  end
  if self.masked > 0 then
    lines[#lines + 1] = 'masked weights are as large and as slow as dense ones until '
      .. 'prune.compact or prune.shrink makes them smaller'
  end
  return table.concat(lines, '\n')
end

--- Print it.
function Analysis:print() print(tostring(self)) end

guard.result(Analysis)

return M
