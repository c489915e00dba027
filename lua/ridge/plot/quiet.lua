-- SPDX-License-Identifier: MIT
--
-- Rows by the time in the machine's fast state (`fwd_quiet`) in place of the median.
--
-- A phase is drawn with the interval of that state, and with rates that follow from it. Ratios
-- within passes are of medians, so rows without them are compared by their intervals. A point whose
-- fast state was seen in fewer than three passes has no such time: a cell of its own kind.

local blame = require 'ridge.blame'
local column = require 'ridge.plot.column'

local M = {}

--- What figures and tables call it.
M.WORDS = "the machine's fast state (quiet)"

-- Of a phase: what is its median over the time.
local RATES = { '_gflops', '_gbps', '_roof' }

-- What was formed from medians within the passes.
local PAIRED = { '_ratio', '_ratio_lo', '_ratio_hi', '_by_pass' }

--- Why a row without such a time has none.
M.REASON = 'its fast state was seen in fewer than three passes'

--- The phase whose time a column shows, or whose rate.
---@param rows table
---@param name string|nil column
---@return string|nil phase nil where it is neither
function M.phase(rows, name)
  if type(name) ~= 'string' then return nil end
  local phase = name
  for _, ending in ipairs(RATES) do phase = name:match('^(.+)' .. ending .. '$') or phase end
  return column.is_phase(rows, phase) and phase or nil
end

local function quieted(row, phase, out)
  local med, quiet = row[phase], row[phase .. '_quiet']
  if med == nil then return end
  out[phase], out[phase .. '_lo'], out[phase .. '_hi'] = quiet, row[phase .. '_quiet_lo'],
    row[phase .. '_quiet_hi']
  for _, ending in ipairs(RATES) do
    local rate = row[phase .. ending]
    out[phase .. ending] = rate and quiet and rate * med / quiet or nil
    out[phase .. ending .. '_lo'], out[phase .. ending .. '_hi'] = nil, nil
  end
  for _, ending in ipairs(PAIRED) do out[phase .. ending] = nil end
  if not quiet then out.state, out.reason = 'unseen', M.REASON end
end

--- Copies of rows with the fast state's times for medians.
---@param rows table as sw:results() gives them
---@param names string|string[] columns that are shown: phases, or rates of them
---@param who string|nil function that asks, for messages
---@return table rows each with `shown` = 'quiet', and `of`, the row that it was; `state` is
---  'unseen' where there is no such time
function M.rows(rows, names, who)
  who = who or 'plot.quiet'
  local phases, any = {}, false
  for _, name in ipairs(type(names) == 'table' and names or { names }) do
    local phase = M.phase(rows, name)
    if phase then phases[phase] = true end
  end
  if not next(phases) then
    blame.raise(("%s: %s is no time of a phase, so there is none of %s"):format(who,
      type(names) == 'table' and table.concat(names, ', ') or tostring(names), M.WORDS), 'EARG')
  end
  local out = {}
  for i, row in ipairs(rows) do
    local copy = {}
    for name, value in pairs(row) do copy[name] = value end
    for phase in pairs(phases) do
      any = any or row[phase .. '_quiet'] ~= nil
      quieted(row, phase, copy)
    end
    copy.shown, copy.of = 'quiet', row
    out[i] = copy
  end
  if not any then
    blame.raise(("%s: no point has a time of %s: it takes three passes that saw it"):format(who,
      M.WORDS), 'EARG')
  end
  return out
end

return M
