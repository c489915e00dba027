-- SPDX-License-Identifier: MIT
--- What compiling took, and after how many calls that is won back.

local guard = require 'ridge.guard'

local M = {}

local Report = {}
Report.__index = Report

local TIMES = { 'record', 'passes', 'emit', 'first', 'steady', 'eager' }

local function times_of(row)
  local parts = {}
  for _, name in ipairs(TIMES) do
    local ms = row[name .. '_ms']
    if ms then parts[#parts + 1] = ('%s %.3g'):format(name, ms) end
  end
  return table.concat(parts, ', ') .. ' ms'
end

local function pays(row)
  if not row.eager_ms then return 'nobody knows when it pays: the function was not timed' end
  if not row.pays_after then return 'it never pays: the plan is no faster' end
  return ('%s after %d'):format(row.paid and 'it has paid' or 'it pays', row.pays_after)
end

local function lines_of(row, lines)
  local agrees = row.same and ', same bits'
    or row.difference and (', off by %.2g'):format(row.difference) or ''
  lines[#lines + 1] = ('%s: %s%s'):format(row.size, row.mode, agrees)
  if row.why then lines[#lines + 1] = '  ' .. row.why end
  local calls = ('  %d call%s'):format(row.calls, row.calls == 1 and '' or 's')
  if row.steady_ms then
    lines[#lines + 1] = '  ' .. times_of(row)
    calls = calls .. '; ' .. pays(row)
  end
  lines[#lines + 1] = calls
end

function Report:__tostring()
  local lines = {}
  for _, row in ipairs(self) do lines_of(row, lines) end
  return #lines > 0 and table.concat(lines, '\n') or 'nothing is compiled yet: call it'
end
Report.__tostring = guard.text(Report.__tostring)

local function row_of(size)
  local row = { size = size.text, mode = size.mode, why = size.why, calls = size.calls,
    cost_ms = size.cost_ms, eager_ms = size.eager_ms }
  if not size.made or size.mode == 'eager' then return row end
  local made, r = size.made, size.recording
  row.record_ms, row.passes_ms, row.emit_ms = r.ms, made.passes_ms, made.emit_ms
  row.first_ms, row.steady_ms, row.tuned_ms = made.first_ms, made.steady_ms, made.tuned_ms
  row.same, row.difference, row.passes = made.same, made.difference, made.names
  local won = row.eager_ms and row.eager_ms - row.steady_ms
  if won and won > 0 then -- the first call would have taken the function's time in any case
    row.pays_after = math.max(1, math.ceil((row.cost_ms - row.eager_ms) / won) + 1)
    row.paid = row.calls >= row.pays_after
  end
  return row
end

--- The rows of a compiled function.
---@param compiled table
---@return table rows
function M.of(compiled)
  local rows = setmetatable({}, Report)
  for size in compiled.shelf:each() do
    if size.mode then rows[#rows + 1] = row_of(size) end
  end
  return rows
end

return M
