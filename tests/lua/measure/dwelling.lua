-- SPDX-License-Identifier: MIT
-- Recorded passes of nine kinds of work on a machine whose states dwell, pieced together to hours.

local M = { STEP_S = 7.5 }

local PIECE_S, HOURS_S = 150, 7200

--- Of each kind what was recorded: a list of groups, each logarithms over the median of all, and
--- where it was, `quick`: by how much intervals of single processes reach down and up.
---@param path string
---@return table series   by name
---@return string[] names
function M.recorded(path)
  local series, names, list = {}, {}, nil
  for line in io.lines(path) do
    local name = line:match '^(.*): group %d$' or line:match '^(.*): quick$'
    if name then
      local is_log = line:find ': quick$' ~= nil
      if not series[name] then series[name], names[#names + 1] = {}, name end
      list = { is_log = is_log }
      if is_log then series[name].quick = list else table.insert(series[name], list) end
    elseif list then
      for value in line:gmatch '%d+' do
        value = tonumber(value) / 1000
        list[#list + 1] = list.is_log and value or math.log(value)
      end
    end
  end
  return series, names
end

--- Two hours: pieces of the recording of two and a half minutes on average, one behind the other.
---@param r table           of ridge.measure.random
---@param groups number[][]
---@param step_s number|nil seconds between two recorded ones
---@return number[] line
function M.timeline(r, groups, step_s)
  local out, step = {}, step_s or M.STEP_S
  while #out < HOURS_S / step do
    local group = groups[r:integer(#groups)]
    local n = math.min(#group, 1 + math.floor(-math.log(1 - r:uniform()) * PIECE_S / step))
    local from = r:integer(#group - n + 1) - 1
    for i = 1, n do out[#out + 1] = group[from + i] end
  end
  return out
end

--- What a pass at a moment finds: one of the five that were recorded around it.
---@param r table
---@param line number[]
---@param seconds number
---@param step_s number|nil
---@return number log
function M.at(r, line, seconds, step_s)
  local i = math.floor(seconds / (step_s or M.STEP_S)) + r:integer(5) - 2
  return line[math.max(1, math.min(#line, i))]
end

--- Moments of a `ridge trust` of so many seconds, a process each one and a half.
---@return table[] moments  of ridge.measure.minutes
function M.moments(r, line, from, seconds, step_s)
  local moments = {}
  for s = 0, seconds - 1.5, 1.5 do
    moments[#moments + 1] = { at = s, log = M.at(r, line, from + s, step_s) }
  end
  return moments
end

return M
