-- SPDX-License-Identifier: MIT
--- Each layer alone in fewer bits: what harm it does and what it gains.

local accuracy = require 'ridge.quant.accuracy'
local batches = require 'ridge.quant.batches'
local guard = require 'ridge.guard'
local candidates = require 'ridge.quant.candidates'
local columns = require 'ridge.show.columns'
local faster = require 'ridge.quant.faster'
local held = require 'ridge.quant.held'
local make = require 'ridge.tensor.make'
local nets = require 'ridge.quant.nets'
local options = require 'ridge.options'
local random = require 'ridge.random'
local rows_of = require('ridge.quant.dynamic').rows_of

local M = {}

local WHAT = 'quant.sensitivity'

local SPEC = {
  validate = { 'table', required = true, doc = 'a loader of (x, labels): what harm is seen on' },
  calibrate = { 'table', doc = 'a loader of inputs, for ranges and for rounding' },
  batches = { 'integer', default = 100, min = 1, doc = 'of calibrate, at most' },
  kinds = { 'table', doc = "of whole numbers, { 'i8' } when left out; i8, w8, w6, w4, w3, w2" },
  rows = { 'number|boolean', default = 1,
    doc = 'dense layers are timed with so many rows; false: none' },
}

local Sensitivity = {}
Sensitivity.__index = Sensitivity

-- The time of a dense layer beside what it was.
local function time(candidate, asked, rows)
  if not rows or getmetatable(candidate.before) ~= nets.Linear then return nil end
  local n, device = candidate.before.n_in, candidate.before.weight.device
  return asked:compare(candidate.kind .. candidate.name, candidate.before, candidate.module,
    make.randn(rows, n, { device = device, generator = random.generator(1) }))
end

--- Each layer of a net alone in fewer bits: answers that change on `validate`, the divergence from
--- the net's outputs, bytes that it saves, and its time. With `calibrate`, i8 is static and weights
--- are rounded by gptq; without it, i8 is dynamic.
---@param net table module in evaluation mode
---@param opts table {validate = loader, calibrate = loader, batches = 100, kinds = {'i8'},
---  rows = 1}
---@return table s rows {layer, class, kind, kl, changed, difference, p, saved_mb, saved_share,
---  ratio, ratio_lo, ratio_hi}, the most harmful first; left; print(), plot()
-- >> local net = ridge.nn.Sequential(ridge.nn.Linear(8, 8), ridge.nn.Linear(8, 3)):eval()
-- >> local data = ridge.data.Loader({ ridge.randn(64, 8), ridge.zeros(64) }, { batch = 32 })
-- >> return ridge.quant.sensitivity(net, { validate = data, rows = false })
function M.sensitivity(net, opts)
  opts = options.check(SPEC, opts, WHAT)
  nets.need(net, WHAT)
  opts.kinds = opts.kinds or { 'i8' }
  candidates.check(opts.kinds, WHAT)
  local rows, asked = rows_of(opts.rows, WHAT), faster.asked()
  if opts.calibrate then
    local seen = batches.seen()
    for x in batches.each(opts.validate, nil, WHAT, 'validate') do seen:add(x) end
    seen:refuse(opts.calibrate, WHAT, 'calibrate', 'the validation data')
  end
  local _, list, left = candidates.of(net, opts, WHAT)
  candidates.need_some(list, left, WHAT)
  local found = {}
  for i, candidate in ipairs(list) do
    local a = accuracy.pair(net, candidate.net, opts.validate, WHAT, 'validate')
    local before, after = held.bytes(candidate.before), held.bytes(candidate.module)
    local took = time(candidate, asked, rows)
    found[i] = { point = candidate.name .. ' ' .. candidate.kind, layer = candidate.name,
      class = candidate.class, kind = candidate.kind, kl = a.kl,
      changed = a.changed, n = a.n, difference = a.difference, p = a.p,
      saved_mb = before.mb - after.mb, saved_share = 1 - after.mb / before.mb,
      ratio = took and took.ratio, ratio_lo = took and took.lo, ratio_hi = took and took.hi }
  end
  local function harm(row) return row.kl == row.kl and row.kl or math.huge end
  table.sort(found, function(x, y)
    if harm(x) ~= harm(y) then return harm(x) > harm(y) end
    return x.layer .. x.kind < y.layer .. y.kind
  end)
  return setmetatable({ rows = found, left = left }, Sensitivity)
end

function Sensitivity:__tostring()
  local cells = {}
  for i, r in ipairs(self.rows) do
    cells[i] = { r.layer, r.kind, ('%.3g'):format(r.kl), ('%d of %d'):format(r.changed, r.n),
      ('%+.2f [%+.2f, %+.2f]'):format(100 * r.difference.share, 100 * r.difference.lo,
        100 * r.difference.hi), ('%.4f'):format(r.saved_mb), r.ratio
        and ('%.2f [%.2f, %.2f]'):format(r.ratio, r.ratio_lo, r.ratio_hi) or '' }
  end
  local lines = { columns.text({ 'layer', 'type', 'KL', 'changed', 'accuracy %', 'MB saved',
    'time of f32' }, cells) }
  for _, layer in ipairs(self.left) do
    lines[#lines + 1] = ('%s stays f32: %s'):format(layer.name, layer.why)
  end
  return table.concat(lines, '\n')
end

--- Print it.
function Sensitivity:print() print(tostring(self)) end

--- Harm against gain as a picture: `:save 'x.png'`, `:show()`.
---@param opt table|nil of ridge.plot's pareto
---@return table figure
function Sensitivity:plot(opt)
  local given = options.over({ x = 'saved_mb', y = 'kl', better_x = 'higher', better_y = 'lower',
    label = 'point' }, opt, 'plot.pareto')
  return require('ridge.plot').draw('pareto', self.rows, given)
end

guard.result(Sensitivity)

return M
