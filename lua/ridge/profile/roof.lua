-- SPDX-License-Identifier: MIT
--- Operations of a profile under the roofs of this machine: how long their arithmetic and their
--- traffic would take at best. Only measured ceilings count; where there are none, nothing is said.

local backend = require 'ridge.backend'
local roof = require 'ridge.measure.roof'

local M = {}

local KINDS = { 'fma.', 'dot.', 'amx.', 'bw.' }

-- The type that an operation computes in: that of what goes in first, and is a number to compute.
local function type_of(shapes)
  for kind in (shapes or ''):gmatch '(%w+)%[' do
    if kind == 'f32' or kind == 'f64' or kind == 'bf16' or kind == 'f16' then return kind end
  end
end

--- The ceilings of the CPU at the threads in use.
---@param how string 'stored': those of the results database, 'measured': measured now, for some
---  seconds, 'none'
---@return table|nil roofs by_name, list, machine; nil where none are known
function M.known(how)
  local list
  if how == 'measured' then
    list = require('ridge.measure').calibrate { quick = true, noise = false, kinds = KINDS }
  elseif how == 'stored' then
    local ok, found = pcall(require('ridge.sweep.calibrated').stored)
    list = ok and found or nil
  end
  if not list then return nil end
  local machine = backend.machine()
  machine.threads = backend.threads()
  return { by_name = roof.by_name(list), machine = machine, list = list }
end

--- The least that the calls of an entry take at best.
---@param roofs table|nil what `known` gave
---@param entry table of a profile's calls
---@return number|nil compute_ns nil where no ceiling is known
---@return number|nil memory_ns
function M.least(roofs, entry)
  if not roofs or entry.device ~= 'cpu' or entry.calls == 0 then return nil end
  local n = entry.calls
  local cost = { flops = entry.flops / n, bytes = entry.bytes / n, dtype = type_of(entry.shapes) }
  local compute = cost.dtype and roof.compute_ns(cost, roofs.by_name) or nil
  local memory = roof.memory_ns(cost, roofs.by_name, roofs.machine)
  return compute and compute * n, memory and memory * n
end

--- The same of several entries together.
---@param roofs table|nil
---@param parts table list of entries
---@return number compute_ns
---@return number memory_ns
---@return number|nil share of the roof; nil where none is known of any of them
function M.of(roofs, parts)
  local compute, memory, least, ns = 0, 0, 0, 0
  for _, entry in ipairs(parts) do
    local c, m = M.least(roofs, entry)
    if c or m then
      compute, memory = compute + (c or 0), memory + (m or 0)
      least, ns = least + math.max(c or 0, m or 0), ns + entry.self_ns
    end
  end
  return compute, memory, ns > 0 and least / ns or nil
end

-- Calls that are no points, as a sentence; nil: there are none.
local function without_point(list, all_ns)
  local names, ns = {}, 0
  for _, entry in ipairs(list) do
    local name = entry.device == 'cpu' and entry.op or entry.op .. ' on ' .. entry.device
    if not names[name] then names[#names + 1], names[name] = name, true end
    ns = ns + entry.self_ns
  end
  if #names == 0 then return nil end
  table.sort(names)
  return ('No points of what computes nothing that is counted, or elsewhere: %s (%.0f %% of the '
    .. 'time of calls).'):format(table.concat(names, ', '), 100 * ns / math.max(1, all_ns))
end

--- Calls as points of a roofline, and the ceilings as rows beside them.
---@param roofs table|nil
---@param calls table of a profile: those of the CPU that have operations and bytes are points
---@return table rows with left_out: a sentence of those that are no points
function M.rows(roofs, calls)
  local rows, others, all_ns = { means = true }, {}, 0
  for _, entry in ipairs(calls) do
    all_ns = all_ns + entry.self_ns
    if entry.device == 'cpu' and entry.flops > 0 and entry.bytes > 0 and entry.self_ns > 0 then
      local n = entry.calls
      rows[#rows + 1] = { state = 'ok', operation = entry.op, shapes = entry.shapes, calls = n,
        dtype = type_of(entry.shapes), call = entry.self_ns / n, call_flops = entry.flops / n,
        call_bytes = entry.bytes / n }
    else
      others[#others + 1] = entry
    end
  end
  rows.left_out = without_point(others, all_ns)
  if #rows == 0 then return rows end
  for _, c in ipairs(roofs and roofs.list or {}) do
    rows[#rows + 1] = { roof = c.name, value = c.value, value_lo = c.ci_lo, value_hi = c.ci_hi,
      threads = c.threads, state = 'ceiling' }
  end
  return rows
end

return M
