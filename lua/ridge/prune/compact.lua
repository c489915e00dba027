-- SPDX-License-Identifier: MIT
--- Masked nets for running: zeros are fixed, and a layer is kept as what is not 0 in it where that
--- is measured to be faster.

local columns = require 'ridge.show.columns'
local guard = require 'ridge.guard'
local faster = require 'ridge.quant.faster'
local held = require 'ridge.quant.held'
local in_no_grad = require('ridge.tensor.grad').no_grad
local layers = require 'ridge.prune.layers'
local make = require 'ridge.tensor.make'
local mask = require 'ridge.prune.mask'
local nets = require 'ridge.quant.nets'
local notes = require 'ridge.prune.notes'
local options = require 'ridge.options'
local random = require 'ridge.random'
local SparseLinear = require('ridge.prune.sparse_layer').SparseLinear
local sparse = require 'ridge.tensor.sparse'

local M = {}

local WHAT = 'prune.compact'

local SPEC = {
  format = { 'string', default = 'auto', choices = { 'auto', 'dense', 'rows', 'blocks', 'n:m' },
    doc = 'what is measured to be fastest, or one for all layers that have zeros' },
  rows = { 'integer', default = 1, min = 1, max = 2 ^ 20, doc = 'with which layers are timed' },
  skip = { 'table', doc = 'names of layers, or of modules, that stay dense' },
}

local Compacted = {}
Compacted.__index = Compacted

local FORMATS = { 'rows', 'blocks', 'n:m' }

local function no_kernel(device) return device .. ' has no kernel for sparse weights' end

-- Why a layer stays as it is without any measurement.
local function why_dense(row, zeros)
  if getmetatable(row.module) == SparseLinear then
    return ('it is kept in %s already'):format(row.module.pattern or row.module.format)
  end
  if row.why then return row.why end
  if zeros == 0 then return 'it has no zeros' end
  if getmetatable(row.module) ~= nets.Linear then
    return ('%s has no sparse kernel'):format(row.class)
  end
  if row.weight.device ~= 'cpu' then return no_kernel(row.weight.device) end
  if row.weight.dtype == 'f64' then return 'sparse products have sums in f32' end
end

-- The fastest of the formats, if one is shown to be faster than dense.
local function fastest(row, asked, n, pattern)
  local best, found_best, slower
  local x = make.randn(n, row.module.n_in, { generator = random.generator(1) })
  for _, format in ipairs(FORMATS) do
    if format ~= 'n:m' or pattern then
      local made = SparseLinear(row.module, format, format == 'n:m' and pattern or nil)
      local found = asked:compare(row.name .. format, row.module, made, x)
      if found.hi < 1 and (not best or found.ratio < found_best.ratio) then
        best, found_best = made, found
      end
      if not slower or found.ratio < slower.ratio then
        slower = { ratio = found.ratio, lo = found.lo, hi = found.hi,
          format = made.pattern or format }
      end
    end
  end
  return best, found_best or slower
end

local function n_of_m(pattern) return (pattern or ''):match '^%d+:%d+$' end

-- Decide about one layer: what stands for it, or nil.
local function decide(row, opts, asked, about)
  local w = row.weight and row.module.weight:detach()
  local zeros = w and w:eq(0):to('i64'):sum():item() or 0
  row.zeros, row.share = zeros, w and zeros / math.max(w.count, 1) or 0
  row.kind, row.why = 'dense', why_dense(row, zeros)
  if getmetatable(row.module) == SparseLinear then
    row.kind, row.pattern = row.module.format, row.module.pattern
    row.share = row.module:effective_weight():eq(0):to('f32'):mean():item()
  elseif row.why and row.weight and row.why == no_kernel(row.weight.device) then
    row.kind = 'infeasible'
  end
  if opts.format == 'dense' and (not row.why or row.kind == 'infeasible') then
    row.kind, row.why = 'dense', "format = 'dense'"
  end
  if row.why then return nil end
  local pattern = sparse.pattern_of(w)
  if opts.format == 'n:m' and not pattern then
    row.why = 'more than half of some 2, 4, 8 or 16 inputs that follow each other are not 0'
    return nil
  end
  if opts.format ~= 'auto' then
    row.kind, row.pattern = opts.format, opts.format == 'n:m' and pattern or nil
    return SparseLinear(row.module, opts.format, row.pattern)
  end
  local made, found = fastest(row, asked, opts.rows, pattern)
  row.ratio, row.lo, row.hi = found.ratio, found.lo, found.hi
  if made then
    row.kind, row.pattern = made.format, made.pattern
    return made
  end
  row.why = ('not shown to be faster: %s take %.2f [%.2f .. %.2f] of its time as it is, at %d '
    .. 'row%s'):format(found.format, found.ratio, found.lo, found.hi, opts.rows,
    opts.rows == 1 and '' or 's')
  local asked_for = n_of_m(about.pattern)
  if asked_for and not pattern then
    row.kind = 'infeasible'
    row.why = ('pattern %s has no kernel on CPUs, and it is %s'):format(asked_for, row.why)
  end
end

--- A copy of a net for running, in evaluation mode: masks become plain zeros, and a dense layer is
--- kept as what is not 0 in it, in compressed rows, in blocks of 16 outputs and one input, or as n
--- of each m inputs (2:4, 4:8, 1:4 and what else has m of 2, 4, 8 or 16 and n at most half of it;
--- whichever fits the zeros), where paired blocks show that to be faster with `rows` rows. The
--- others stay dense, and the report says why: at most sparsities a dense product is faster. A
--- layer pruned n:m with another m, for which there is no kernel, is `infeasible` then, and so is
--- what is pruned on a GPU, which has none. The net stays as it was.
---@param net table module
---@param opts table|nil {format = 'auto', rows = 1, skip = {'head'}}: 'dense', 'rows', 'blocks' or
---  'n:m' for all layers that have zeros
---@return table c
---@return table report layers {name, class, kind, pattern (of n:m), why, zeros, share, ratio, lo,
---  hi (time beside dense), mb (before, after: what is stored, and packed for products)}; print()
-- >> local m = ridge.prune.magnitude(ridge.nn.Sequential(ridge.nn.Linear(32, 16)),
-- >>   { sparsity = 0.9 })
-- >> return ridge.prune.compact(m, { format = 'rows' })
function M.compact(net, opts)
  opts = options.check(SPEC, opts, WHAT)
  nets.need(net, WHAT, true)
  local made, asked, map, list = nets.copy(net), faster.asked(), {}, {}
  local about = notes.of(net)
  mask.bake(made)
  for _, row in ipairs(layers.of(made, opts.skip, WHAT)) do
    local kept = in_no_grad(decide, row, opts, asked, about)
    local before = held.bytes(row.module).mb
    if kept then map[row.module] = kept end
    list[#list + 1] = { name = row.name, class = row.class, kind = row.kind, why = row.why,
      pattern = row.pattern, zeros = row.zeros, share = row.share, ratio = row.ratio,
      lo = row.lo, hi = row.hi,
      mb = { before = before, after = kept and held.bytes(kept).mb or before } }
  end
  local report = setmetatable({ layers = list, rows = opts.rows }, Compacted)
  return notes.attach(nets.exchange(made, map), 'compact', list, about.pattern
    and { name = about.pattern }), report
end

function Compacted:__tostring()
  local cells = {}
  for i, r in ipairs(self.layers) do
    cells[i] = { r.name, r.class, ('%.1f'):format(100 * r.share), r.pattern or r.kind,
      r.ratio and ('%.2f [%.2f, %.2f]'):format(r.ratio, r.lo, r.hi) or '',
      ('%.4f'):format(r.mb.before), ('%.4f'):format(r.mb.after) }
  end
  local lines = { columns.text({ 'layer', 'class', 'zeros %', 'kept', 'time of dense', 'MB before',
    'MB' }, cells) }
  for _, r in ipairs(self.layers) do
    if r.why then lines[#lines + 1] = ('%s is %s: %s'):format(r.name, r.kind, r.why) end
  end
  return table.concat(lines, '\n')
end

--- Print it.
function Compacted:print() print(tostring(self)) end

guard.result(Compacted)

return M
