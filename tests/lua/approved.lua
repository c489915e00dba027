-- SPDX-License-Identifier: MIT
--
-- Approval tests: the whole text that something prints or draws, compared with a file of
-- tests/approved that a person has read and found true.  A single wrong word, tick or unit fails.
--
-- What may differ from run to run (times, paths, process ids) has no place in such a text: take
-- fixed rows, or `masked`.  RIDGE_APPROVE=1 in the environment writes the files anew; the
-- difference is then to be read line by line before it is committed.

local M = {}

local FOLDER = 'tests/approved/'

local function read(path)
  local file = io.open(path, 'rb')
  if not file then return nil end
  local text = file:read '*a'
  file:close()
  return text
end

local function lines(text)
  local list = {}
  for line in (text .. '\n'):gmatch '(.-)\n' do list[#list + 1] = line end
  return list
end

-- The first difference of two texts, with the three lines before it.
local function difference(expected, got)
  local a, b = lines(expected), lines(got)
  local at = 1
  while a[at] == b[at] do at = at + 1 end
  local out = {}
  for i = math.max(1, at - 3), at - 1 do out[#out + 1] = '    ' .. a[i] end
  for i = at, at + 2 do out[#out + 1] = '  - ' .. (a[i] or '(end of the text)') end
  for i = at, at + 2 do out[#out + 1] = '  + ' .. (b[i] or '(end of the text)') end
  return at, table.concat(out, '\n')
end

--- Fails unless a text is what was approved.
---@param name string 'cli/top': the text is tests/approved/cli/top.txt
---@param text string
function M.check(name, text)
  local path = FOLDER .. name .. '.txt'
  if text:sub(-1) ~= '\n' then text = text .. '\n' end
  local expected = read(path)
  if expected == text then return end
  if os.getenv 'RIDGE_APPROVE' == '1' then
    assert(os.execute(('mkdir -p %s'):format(path:match '(.*)/')) == 0)
    local file = assert(io.open(path, 'wb'))
    file:write(text)
    file:close()
    return
  end
  if not expected then error(path .. ' is not there; RIDGE_APPROVE=1 writes it', 2) end
  error(('%s, line %d differs (-: approved, +: now):\n%s'):format(path,
    difference(expected, text)), 2)
end

--- A text with every match of some patterns replaced, so that what differs by run does not count.
---@param text string
---@param patterns table of { pattern, replacement }
---@return string
function M.masked(text, patterns)
  for _, p in ipairs(patterns) do text = text:gsub(p[1], p[2]) end
  return text
end

return M
