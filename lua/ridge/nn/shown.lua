-- SPDX-License-Identifier: MIT
--- A large net as few lines: what lies deepest is folded first, then the layers in the middle.

local columns = require 'ridge.show.columns'

local M = {}

local LINES = 12

local function depth_of(line) return #line:match '^ *' / 2 end

-- A line that the terminal breaks is two.
local function fitted(lines)
  local out, room = {}, columns.terminal()
  for i, line in ipairs(lines) do out[i] = columns.cut(line, room) end
  return table.concat(out, '\n')
end

--- The lines of a net that a prompt shows.
---@param text string a line for each module, two spaces deeper for what is in it
---@return string text twelve lines at most
function M.folded(text)
  local lines, most = {}, 0
  for line in text:gmatch '[^\n]+' do
    lines[#lines + 1] = line
    most = math.max(most, depth_of(line))
  end
  if #lines <= LINES then return fitted(lines) end
  local kept, all = lines, #lines
  for depth = most - 1, 1, -1 do
    kept = {}
    for i, line in ipairs(lines) do
      if depth_of(line) <= depth then
        local more = lines[i + 1] and depth_of(lines[i + 1]) > depth
        kept[#kept + 1] = more and line .. ' ...' or line
      end
    end
    if #kept < LINES then break end
  end
  local left = all - #kept
  if #kept >= LINES then -- both ends of it
    local front, back, short = LINES - 5, 3, {}
    for i = 1, front do short[i] = kept[i] end
    short[front + 1] = ('  ... %d lines'):format(#kept - front - back)
    for i = #kept - back + 1, #kept do short[#short + 1] = kept[i] end
    kept, left = short, all - front - back
  end
  kept[#kept + 1] = ('(%d lines more: print(_:describe()); summary(_))'):format(left)
  return fitted(kept)
end

return M
