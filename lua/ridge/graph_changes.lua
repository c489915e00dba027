-- SPDX-License-Identifier: MIT
--- What each pass that ran on a graph did to its nodes, its work and its results.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local columns = require 'ridge.show.columns'
local guard = require 'ridge.guard'
local passes = require 'ridge.graph_passes'
local trial = require 'ridge.graph_trial'

local M = {}

local Changes = {}
Changes.__index = Changes

local function difference_of(row)
  if row.why then return row.why end
  return row.same and 'same bits' or ('%.2g'):format(row.difference)
end

-- One number where nothing changed.
local function change(before, now)
  if before == now then return ('%.4g'):format(now) end
  return ('%.4g > %.4g'):format(before, now)
end

function Changes:__tostring()
  local rows = {}
  for i, row in ipairs(self) do
    rows[i] = { row.pass, change(row.nodes_before, row.nodes),
      change(row.flops_before, row.flops), change(row.bytes_before, row.bytes),
      difference_of(row) }
  end
  return columns.text({ 'pass', 'nodes', 'flops', 'bytes', 'difference' }, rows,
    { right = { [2] = true, [3] = true, [4] = true } })
end
Changes.__tostring = guard.text(Changes.__tostring)

local function facts_of(graph)
  local facts = ffi.new 'rg_graph_facts'
  C.rg_graph_facts_of(graph._p, facts)
  return facts
end

local function packed(...) return { n = select('#', ...), ... } end

-- What a graph's plan gives from where things stand; or why it cannot run.
local function outcome_of(graph, saved)
  local ok, result = pcall(function()
    local plan = graph:plan()
    trial.restore(saved)
    local list = trial.outcome(saved, packed(plan:run()))
    plan:release()
    return list
  end)
  trial.restore(saved)
  if ok then return result end
  blame.pass_interrupt(result)
  return nil, blame.is_error(result) and result.message or tostring(result)
end

--- The rows of a graph that graph:optimize made.
---@param graph table
---@return table rows
function M.of(graph)
  local made = graph._optimized
  if not made then
    blame.raise('graph:changes: no passes have run on this graph; h = g:optimize { ... } is what '
      .. 'it is asked of', 'EARG', 'graph')
  end
  local rows, now = setmetatable({}, Changes), made.from:copy()
  local saved = trial.save(now)
  local before, why = outcome_of(now, saved)
  for i, name in ipairs(made.names) do
    local old, next_graph = facts_of(now), now:copy()
    passes.edit(next_graph, name, 'graph:changes')
    next_graph = next_graph:copy()
    local facts = facts_of(next_graph)
    local row = { pass = name, nodes_before = old.n_nodes, nodes = facts.n_nodes,
      flops_before = old.flops, flops = facts.flops, bytes_before = old.bytes,
      bytes = facts.bytes, why = why }
    if before then
      local after, failed = outcome_of(next_graph, saved)
      row.why = failed
      if after then row.same, row.difference = trial.difference(before, after) end
      before, why = after, failed
    end
    rows[i], now = row, next_graph
  end
  return rows
end

return M
