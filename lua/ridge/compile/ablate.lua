-- SPDX-License-Identifier: MIT
--- What each pass is worth here: h:ablate(x) leaves each one out in turn and measures.

local ab = require 'ridge.measure.ab'
local blame = require 'ridge.blame'
local columns = require 'ridge.show.columns'
local guard = require 'ridge.guard'
local plain = require 'ridge.plain'
local ref = require 'ridge.ffi.ref'
local trial = require 'ridge.graph_trial'

local M = {}

local Ablation = {}
Ablation.__index = Ablation

-- An interval without 1 and no verdict: what a plan beside itself showed, or blocks that disagree.
local function verdict_text(row)
  local r = row.result
  if row.idle or row.verdict ~= 'open' or r.ci_lo <= 1 and r.ci_hi >= 1 then return row.verdict end
  if r.aa_fail or math.abs(math.log(r.ratio)) <= (r.floor or 0) then
    return ('open: a plan beside itself differs by %s'):format(plain.percent(math.exp(r.floor) - 1))
  end
  return 'open: too few blocks, or they disagree'
end

function Ablation:__tostring()
  local rows = {}
  for i, row in ipairs(self) do
    local r = row.result
    rows[i] = { row.pass, row.idle and 'does nothing here' or ('%.3f'):format(r.ratio),
      row.idle and '' or ('%.3f .. %.3f'):format(r.ci_lo, r.ci_hi), verdict_text(row),
      ('%+d'):format(row.bytes) }
  end
  return columns.text({ 'without', 'time', '95 %', 'verdict', 'bytes' }, rows)
end
Ablation.__tostring = guard.text(Ablation.__tostring)

local function without(names, i)
  local list = {}
  for k, name in ipairs(names) do
    if k ~= i then list[#list + 1] = name end
  end
  return list
end

-- Whoever reads a ratio above 1 reads that the pass is worth it.
local VERDICTS = { slower = 'the pass is faster', faster = 'the pass is slower',
  equal = 'no difference', open = 'open' }

-- What a plan takes once it has run: kernels ask for their scratch in the first run.
local function bytes_of(plan)
  plan:run()
  return plan:facts().buffer_bytes
end

local function row_of(made, i, whole, opts)
  local less = made.from:optimize(without(made.names, i))
  local row = { pass = made.names[i], idle = less:same(whole.graph) }
  if row.idle then
    row.verdict, row.bytes = 'no difference', 0
    return row
  end
  local plan = less:plan()
  row.bytes = bytes_of(plan) - bytes_of(whole.plan)
  local given = { a = whole.plan, b = plan }
  for key, value in pairs(opts) do given[key] = value end
  row.result = ab.ab(given)
  row.ratio, row.ci_lo, row.ci_hi = row.result.ratio, row.result.ci_lo, row.result.ci_hi
  row.verdict = VERDICTS[row.result.verdict]
  plan:release()
  return row
end

local function fill(plan, x)
  if x == nil then return end
  if not ref.is(x) and type(x) ~= 'table' then
    blame.raise('graph:ablate: x is a tensor, or a table of tensors, got ' .. blame.show(x), 'EARG',
      'graph')
  end
  plan:run(ref.is(x) and { x } or x)
end

--- Measure a graph that passes ran on against the same without each of them.
---@param graph table
---@param x Tensor|table|nil contents for its inputs, as plan:run takes them
---@param opts table|nil as ridge.measure.ab takes them: blocks, looks, margin, ...
---@return table rows
function M.ablate(graph, x, opts)
  local made = graph._optimized
  if not made then
    blame.raise('graph:ablate: no passes have run on this graph; h = g:optimize { ... } is what it '
      .. 'is asked of', 'EARG', 'graph')
  end
  if opts ~= nil and type(opts) ~= 'table' then
    blame.raise('graph:ablate: options are a table, got ' .. blame.show(opts), 'EARG', 'graph')
  end
  local saved = trial.save(graph)
  local whole = { plan = graph:plan(), graph = graph }
  local rows = setmetatable({}, Ablation)
  local ok, err = pcall(function()
    fill(whole.plan, x)
    for i = 1, #made.names do rows[i] = row_of(made, i, whole, opts or {}) end
  end)
  trial.restore(saved)
  whole.plan:release()
  if not ok then error(err, 0) end
  return rows
end

return M
