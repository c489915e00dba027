-- SPDX-License-Identifier: MIT
--- A script that ranks run by `ridge launch` for a command, and what it wrote.

local host = require 'ridge.host'
local plain = require 'ridge.plain'
local process = require 'ridge.process'

local M = {}

--- Start ranks on this machine, and wait until they have ended.
---@param ranks number
---@param source string Lua; arg[1] is the file that its result goes to, the others are `words`
---@param words string[]
---@param given table|nil what ridge.process.spawn takes besides: out, env
---@return string result what it wrote
-- Raises that a rank failed; Ctrl-C is heard here, too, where it ended them.
function M.run(ranks, source, words, given)
  local script, out = os.tmpname(), os.tmpname()
  local file = assert(io.open(script, 'w'))
  file:write(source)
  file:close()
  local job = { program = { process.program(), 'launch', '-n', tostring(ranks), script, out,
    unpack(words) } }
  for key, value in pairs(given or {}) do job[key] = value end
  local ok, how = pcall(function() return process.spawn(job):wait() end)
  local text = io.open(out, 'rb')
  local read = text and text:read '*a' or ''
  if text then text:close() end
  os.remove(script)
  os.remove(out)
  if not ok then error(how, 0) end
  if how.signal ~= 0 or how.code ~= 0 then
    if how.code == 130 then host.stopped() end
    error(('%s ended with status %d'):format(plain.count(ranks, 'rank'), how.code), 0)
  end
  return read
end

return M
