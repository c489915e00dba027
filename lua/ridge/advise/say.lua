-- SPDX-License-Identifier: MIT
--- What a finding is: whether its lines apply to the run, what was measured, why, what to try.

local tries = require 'ridge.profile.tries'

local M = {}

--- Its lines apply.
---@param measured string
---@param why string
---@param ... string names of what to try
---@return table finding
function M.applies(measured, why, ...)
  return { state = 'applies', measured = measured, why = why, try = tries.list(...) }
end

--- It comes before all others: what does not learn is not to be made faster.
---@param finding table that applies
---@return table finding
function M.first(finding)
  finding.urgent = true
  return finding
end

--- They do not.
---@param measured string
---@param why string
---@return table finding
function M.no(measured, why)
  return { state = 'no', measured = measured, why = why, try = {} }
end

--- It could not be told.
---@param why string
---@param ... string names of what would tell
---@return table finding
function M.unknown(why, ...)
  return { state = 'unknown', why = why, try = tries.list(...) }
end

--- It could not be told by what was measured.
---@param measured string
---@param why string
---@param ... string names of what would tell
---@return table finding
function M.open(measured, why, ...)
  local finding = M.unknown(why, ...)
  finding.measured = measured
  return finding
end

return M
